#include "actor_runtime/simulate/simulate_on.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/trace.h"
#include "actor_runtime/exec/trace_json.h"
#include "actor_runtime/simulate/crossings.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Of a cluster that says nothing: proto/cluster.proto.
constexpr double kLatency = 1e-6, kBandwidth = 1e10;

}  // namespace

absl::StatusOr<proto::Cluster> WithProcesses(proto::Cluster cluster, const proto::Plan& plan,
                                             int processes) {
  ASSIGN_OR_RETURN(const int each, RanksAProcess(plan, processes));
  if (processes > 1 && cluster.level_size() == 1) {
    return InputError(absl::StrCat("--processes=", processes),
                      "the cluster file has one level: it does not say what joins processes",
                      "measure it: oneflow calibrate --processes=2 --out=FILE");
  }
  if (cluster.level_size() == 0) {
    for (const char* name : {"process", "host"}) {
      proto::Level* level = cluster.add_level();
      level->set_name(name);
      level->set_latency(kLatency);
      level->set_bandwidth(kBandwidth);
    }
  }
  cluster.mutable_level(0)->set_size(each);
  return cluster;
}

absl::StatusOr<int> ProcessesOn(const proto::Cluster& cluster, const proto::Plan& plan) {
  const bool joined = cluster.device().kind() == proto::Device::CPU && cluster.level_size() > 1 &&
                      plan.device_kind() == proto::CPU;
  if (!joined) return 1;
  ASSIGN_OR_RETURN(const int ranks, RanksAProcess(plan, 1));
  const int each = std::min(ranks, cluster.level(0).size());
  if (each > 0 && ranks % each == 0) return ranks / each;
  return InputError(
      "cluster",
      absl::StrCat("its processes of ", each, " devices cannot hold the plan's ", ranks, " evenly"),
      "give --processes=N, a number that divides them");
}

namespace {

// Of a program that is known to be live.
absl::StatusOr<SimulatedRun> SimulateLive(const proto::Cluster& cluster, const proto::Plan& plan,
                                          std::string_view program,
                                          const std::vector<FarTraffic>& far,
                                          SimulateOptions options) {
  ASSIGN_OR_RETURN(const proto::Program* found, ProgramOfFlag(plan, program));
  ASSIGN_OR_RETURN(const std::vector<ActorTime> times,
                   ActorTimes(plan, *found, FactsOf(plan, *found), cluster, far));
  for (const ActorTime& time : times) {
    options.actor_seconds.push_back(time.worker);
    options.link_seconds.push_back(time.link);
  }
  options.worker_a_device = cluster.device().kind() == proto::Device::CPU;
  if (options.worker_a_device && cluster.level_size() > 0) {
    options.message_seconds = cluster.level(0).latency();
  }
  return Simulate(plan, program, options);
}

}  // namespace

absl::StatusOr<SimulatedRun> SimulateOn(const proto::Cluster& cluster, const proto::Plan& plan,
                                        std::string_view program, int64_t steps,
                                        int64_t skip_after) {
  RETURN_IF_ERROR(VerifyPlan(plan));
  RETURN_IF_ERROR(ProgramOfFlag(plan, program).status());
  ASSIGN_OR_RETURN(const int processes, ProcessesOn(cluster, plan));
  std::vector<FarTraffic> far;
  if (processes > 1) {
    ASSIGN_OR_RETURN(far, FarTrafficOf(plan, program, processes));
  }
  return SimulateLive(cluster, plan, program, far, {.steps = steps, .skip_after = skip_after});
}

absl::StatusOr<double> SimulatedStepSeconds(const proto::Cluster& cluster, const proto::Plan& plan,
                                            std::string_view program) {
  ASSIGN_OR_RETURN(const SimulatedRun run,
                   SimulateLive(cluster, plan, program, {}, {.steps = 2, .skip_after = 0}));
  return run.StepSeconds();
}

proto::ProcessTrace SimulatedTrace(const proto::Plan& plan, const SimulatedRun& run,
                                   int64_t first_step) {
  CHECK(run.repeats.empty()) << "a trace has every firing";
  Trace trace(static_cast<int64_t>(run.order.size()));
  trace.Begin(run.net, first_step, run.options.steps);
  std::vector<int64_t> fired(run.net.specs.size(), 0);
  for (const int32_t actor : run.order) {
    const int64_t firing = fired[actor]++;
    const SimulatedRun::Span& span = run.SpanOf(actor, firing);
    trace.buffer(run.net.stream_of[actor])
        ->Add({Nanoseconds(span.begin), Nanoseconds(span.end), firing, actor});
  }
  proto::ProcessTrace part = trace.ToProto(plan);
  part.set_predicted(true);
  return part;
}

std::string SimulatedTraceJson(const proto::Plan& plan, const SimulatedRun& run) {
  const proto::ProcessTrace part = SimulatedTrace(plan, run);
  return TraceJson({&part, 1}, 1, TraceFactsOf(plan));
}

}  // namespace oneflow
