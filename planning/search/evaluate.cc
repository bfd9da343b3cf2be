#include "planning/search/evaluate.h"

#include <algorithm>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/recipe/price_queues.h"
#include "planning/simulate/model_rates.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/utilization.h"

namespace oneflow {
namespace {

// As for the headline of `oneflow compile`.
constexpr int64_t kMostFirings = int64_t{1} << 24;

// Seconds a step of the device that waits most for exchanges. Ranks of a stage are alike.
double FindExposed(const Utilization& utilization) {
  double most = 0;
  for (const DeviceTime& device : utilization.devices) most = std::max(most, device.exposed);
  return most;
}

}  // namespace

absl::StatusOr<FoundPlan> EvaluatePlan(const proto::Plan& plan, const proto::Recipe& candidate,
                                       const proto::Cluster& cluster) {
  const proto::Program* train = FindProgram(plan, "train");
  if (train == nullptr) {
    return InputError(plan.model(), "has no loss, so it cannot be trained",
                      "search plans of a graph with a loss");
  }
  ASSIGN_OR_RETURN(const SimulatedRun run,
                   SimulateProved(cluster, plan, "train", /*steps=*/2, kSkipAfter, kMostFirings));
  const Utilization utilization = FindUtilization(run);
  const RunFigures figures = FindFigures(plan, "train");
  FoundPlan found{.candidate = candidate,
                  .step_seconds = run.StepSeconds(),
                  .bubble = utilization.bubble,
                  .exposed_exchange = FindExposed(utilization),
                  .band = FindBand(cluster, figures),
                  .imbalance = FindImbalance(plan)};
  for (const proto::StageMemory& memory : plan.memory()) {
    const bool device = memory.kind() == proto::DEVICE;
    int64_t* const most = device ? &found.bytes : &found.host_bytes;
    if (device || memory.kind() == proto::HOST) *most = std::max(*most, memory.arena_bytes());
  }
  ASSIGN_OR_RETURN(const ModelRates rates,
                   FindModelRates(plan, "train", cluster, found.step_seconds));
  found.mfu = rates.mfu;
  found.mfu_counts = WhatCounts(rates);
  if (rates.mfu) found.why_above_all = WhyAboveAll(*rates.mfu, rates.mfu_hidden);
  if (found.step_seconds > 0) {
    found.device_tokens_a_second = figures.device_tokens / found.step_seconds;
    found.tokens_a_second = found.device_tokens_a_second * static_cast<double>(figures.devices);
  }
  return found;
}

}  // namespace oneflow
