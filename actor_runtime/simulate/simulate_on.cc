#include "actor_runtime/simulate/simulate_on.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/trace.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

absl::StatusOr<SimulatedRun> SimulateOn(const proto::Cluster& cluster, const proto::Plan& plan,
                                        std::string_view program, int64_t steps) {
  RETURN_IF_ERROR(VerifyPlan(plan));
  ASSIGN_OR_RETURN(const proto::Program* found, ProgramOfFlag(plan, program));
  SimulateOptions options{.steps = steps};
  ASSIGN_OR_RETURN(options.actor_seconds,
                   ActorSeconds(plan, *found, FactsOf(plan, *found), cluster));
  options.worker_a_device = cluster.device().kind() == proto::Device::CPU;
  if (options.worker_a_device && cluster.level_size() > 0) {
    options.message_seconds = cluster.level(0).latency();
  }
  return Simulate(plan, program, options);
}

std::string SimulatedTraceJson(const SimulatedRun& run) {
  Trace trace(static_cast<int64_t>(run.order.size()));
  trace.Begin(run.net, /*first_step=*/0, run.options.steps);
  std::vector<int64_t> fired(run.net.specs.size(), 0);
  for (const int32_t actor : run.order) {
    const int64_t firing = fired[actor]++;
    const SimulatedRun::Span& span = run.SpanOf(actor, firing);
    trace.buffer(run.net.stream_of[actor])
        ->Add({Nanoseconds(span.begin), Nanoseconds(span.end), firing, actor});
  }
  return trace.ToJson();
}

}  // namespace oneflow
