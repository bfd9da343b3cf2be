#include <cstdio>
#include <cstdlib>
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "tools/search/search.h"
using namespace oneflow;
// spike graph cluster batch devices memory_gib budget top [fixes]
int main(int argc, char** argv) {
  auto source = ReadGraphSource(argv[1]);
  if (!source.ok()) {
    puts("graph");
    return 1;
  }
  SearchSpec spec{*source};
  CompileOptions& given = spec.given;
  auto text = ReadFile(argv[2], "");
  if (!ParseText(*text, argv[2], "cluster", &given.cluster).ok()) {
    puts("cluster");
    return 1;
  }
  given.train.set_batch(atoll(argv[3]));
  given.train.set_precision(proto::BF16);
  given.device_kind = proto::CUDA;
  auto* o = given.train.mutable_optimizer();
  o->set_learning_rate(1e-3);
  o->set_beta1(.9);
  o->set_beta2(.95);
  o->set_epsilon(1e-8);
  o->set_clip(1);
  spec.devices = atoll(argv[4]);
  given.cluster.mutable_device()->set_memory_bytes((int64_t)(atof(argv[5]) * 1e9));
  SearchOptions options{.budget_seconds = atof(argv[6]), .threads = 2, .top = atoi(argv[7])};
  for (int i = 8; i < argc; ++i) {
    auto st = AddFixes("--fix=", argv[i], &spec.fixed);
    if (!st.ok()) {
      puts(std::string(st.message()).c_str());
      return 1;
    }
  }
  auto line = [](const FoundPlan& f) { return CandidateFlags(f.candidate); };
  options.observe = [&](const SearchProgress& p) {
    fprintf(stderr,
            "%.1f s: families %ld refused %ld large %ld slow %ld open %ld short %ld compiled %ld "
            "nofit %ld bound %.4g best %.4g %s\n",
            p.seconds, p.counts.families, p.counts.refused, p.counts.too_large, p.counts.too_slow,
            p.counts.open, p.counts.short_plans, p.counts.compiled, p.counts.did_not_fit,
            p.bound_seconds, p.best ? p.best->step_seconds : 0,
            p.best ? line(*p.best).c_str() : "");
  };
  auto r = Search(spec, options);
  if (!r.ok()) {
    puts(std::string(r.status().message()).c_str());
    return 1;
  }
  for (auto& f : r->found)
    printf("%.5g s %.1f GB bubble %.1f %% MFU %.1f %% exposed %.3g: %s\n", f.step_seconds,
           f.bytes / 1e9, 100 * f.bubble, 100 * f.mfu.value_or(0), f.exposed_exchange,
           line(f).c_str());
  printf(
      "bound %.5g, gap %.2f %%, complete %d, %.1f s, short %ld compiled %ld nofit %ld open %ld\n",
      r->bound_seconds,
      100 * (r->found.empty() ? 0 : r->found[0].step_seconds / r->bound_seconds - 1), r->complete,
      r->seconds, r->counts.short_plans, r->counts.compiled, r->counts.did_not_fit, r->counts.open);
}
