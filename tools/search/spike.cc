#include <chrono>
#include <cstdio>
#include <cstdlib>
#include "actor_runtime/simulate/simulate_on.h"
#include "compiler/compile.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/model/balance_stages.h"
#include "tools/search/short_plan.h"
#include "tools/search/shorten_model.h"
using namespace oneflow;
static double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
// spike graph cluster batch mesh M schedule chunks recompute shard sp
int main(int argc, char** argv) {
  auto source = ReadGraphSource(argv[1]); if (!source.ok()) { puts("graph"); return 1; }
  CompileOptions given; 
  auto text = ReadFile(argv[2], ""); if (!ParseText(*text, argv[2], "cluster", &given.cluster).ok()) { puts("cluster"); return 1; }
  given.train.set_batch(atoll(argv[3])); given.train.set_precision(proto::BF16); given.device_kind = proto::CUDA;
  auto* o = given.train.mutable_optimizer(); o->set_learning_rate(1e-3); o->set_beta1(.9); o->set_beta2(.95); o->set_epsilon(1e-8); o->set_clip(1);
  given.cluster.mutable_device()->clear_memory_bytes();
  Family f; f.mesh = *ParseMesh(argv[4]); f.micro_batches = atoll(argv[5]); f.schedule = argv[6]; f.chunks = atoi(argv[7]);
  std::string r = argv[8]; f.shard = *ParseSharding("shard", argv[9]); f.split_positions = atoi(argv[10]);
  double t0 = Now();
  auto costs = MeasureShortPlan(*source, given, f, r);
  if (!costs.ok()) { printf("short: %s\n", std::string(costs.status().message()).c_str()); return 1; }
  int P = f.mesh.stages();
  double t1 = Now();
  // balanced on even counts
  std::vector<std::vector<int>> blocks;
  auto n = BlocksByStage(*source, CandidateOptions(given, {f, {.recompute = r}}));
  for (int s = 0; s < P; ++s) blocks.push_back({(*n)[s]});
  auto told = TellStages(given, f, {*costs}, blocks);
  if (!told.ok()) { printf("tell: %s\n", std::string(told.status().message()).c_str()); return 1; }
  double t2 = Now();
  auto plan = DraftPlan(*source, CandidateOptions(given, {f, {.recompute = r}}));
  if (!plan.ok()) { printf("full: %s\n", std::string(plan.status().message()).c_str()); return 1; }
  double t3 = Now();
  auto run = SimulateProved(given.cluster, *plan, "train", 2);
  double t4 = Now();
  if (!run.ok()) { printf("sim: %s\n", std::string(run.status().message()).c_str()); auto full = Compile(*source, CandidateOptions(given, {f, {.recompute = r}})); if (!full.ok()) { printf("compile: %s\n", std::string(full.status().message()).c_str()); return 1; } run = SimulateProved(given.cluster, *full, "train", 2); printf("compiled sim: %s\n", std::string(run.status().message()).c_str());
    const auto& a = plan->program(0); const auto& b = full->program(1); printf("actors %d %d regs %d %d streams %d %d\n", a.actor_size(), b.actor_size(), a.register__size(), b.register__size(), a.stream_size(), b.stream_size());
    for (int i = 0; i < a.stream_size(); ++i) if (a.stream(i).SerializeAsString() != b.stream(i).SerializeAsString()) printf("stream %s\n", a.stream(i).name().c_str());
    int shown = 0; for (int i = 0; i < a.actor_size() && shown < 5; ++i) if (a.actor(i).SerializeAsString() != b.actor(i).SerializeAsString()) { ++shown; printf("A %s\nB %s\n", a.actor(i).ShortDebugString().c_str(), b.actor(i).ShortDebugString().c_str()); }
    return 1; }
  double step = run->StepSeconds();
  double worst = 0; for (int s = 0; s < P; ++s) { double e = told->bytes[s] / plan->facts().lower_bound_bytes(s) - 1; if (std::abs(e) > std::abs(worst)) worst = e; }
  if (std::getenv("SPIKE")) for (int s = 0; s < P; ++s) printf("  stage %d blocks %d: told %.4g full %.4g\n", s, (*n)[s], told->bytes[s], (double)plan->facts().lower_bound_bytes(s));
  printf("%s M=%s %s v=%s %s %s sp=%s: told %.5g full %.5g  err %+.2f %%  bytes worst %+.2f %% of %.3g | short %.2f tell %.3f draft %.2f sim %.2f s\n", argv[4], argv[5], argv[6], argv[7], r.c_str(), argv[9], argv[10],
         told->step_seconds, step, 100 * (told->step_seconds / step - 1), 100 * worst, (double)plan->facts().lower_bound_bytes(0), t1 - t0, t2 - t1, t3 - t2, t4 - t3);
}
