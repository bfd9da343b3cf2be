#include "tools/oneflow/explain/simulated_page.h"

#include "oneflow_core/base/status.h"
#include "planning/simulate/model_rates.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/summary.h"
#include "tools/oneflow/explain/explain_page.h"
#include "tools/oneflow/explain/headline.h"

namespace oneflow {

absl::StatusOr<std::string> SimulatedPage(const proto::Cluster& cluster, const PricedPlan& priced,
                                          std::string_view program, int64_t steps,
                                          std::string_view live_script) {
  const proto::Plan& plan = priced.price ? *priced.price : priced.plan;
  ASSIGN_OR_RETURN(const SimulatedRun run, SimulateOn(cluster, plan, program, steps));
  SimulationSummary summary = Summarize(plan, cluster.name(), run);
  summary.band = FindPlanBand(cluster, plan, program);
  ASSIGN_OR_RETURN(summary.rates, FindModelRates(plan, program, cluster, summary.step_seconds));
  summary.sharing = FindCoreSharing(cluster, plan);
  if (priced.price) summary.imbalance = priced.imbalance;
  return ExplainPage(plan, DescribeProof(plan), summary, priced.price ? PriceText(priced) : "",
                     live_script);
}

}  // namespace oneflow
