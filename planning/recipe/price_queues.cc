#include "planning/recipe/price_queues.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {
namespace {

// Plans that are compiled for an imbalance that fits.
constexpr int kMostTries = 8;

int64_t MostInt(const auto& ops, const char* attr) {
  int64_t most = 0;
  for (const auto& op : ops) {
    const auto found = op.attr().find(attr);
    if (found != op.attr().end()) most = std::max<int64_t>(most, found->second.i());
  }
  return most;
}

// The imbalance of one device that gets all tokens: more changes nothing.
double WorstImbalance(const proto::Graph& graph, const proto::Plan& priced) {
  int64_t groups = 1;
  for (const proto::Program& program : priced.program()) {
    groups = std::max(groups, MostInt(program.actor(), "parts"));
  }
  const int64_t choices = std::max<int64_t>(1, MostInt(graph.op(), "choices"));
  const int64_t of_group = MostInt(graph.op(), "experts") / groups;
  return static_cast<double>(groups * std::min(choices, of_group)) / static_cast<double>(choices);
}

}  // namespace

bool IsDropless(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(), [](const proto::Op& op) {
    return op.attr().contains("choices") && !op.attr().contains("capacity");
  });
}

bool IsPriced(const proto::Plan& plan) {
  return std::any_of(plan.program().begin(), plan.program().end(), [](const auto& program) {
    return std::any_of(
        program.actor().begin(), program.actor().end(),
        [](const proto::Actor& actor) { return actor.attr().contains("imbalance"); });
  });
}

absl::StatusOr<double> FindMostImbalance(const GraphSource& source, const PlanRequest& request,
                                         const proto::Plan& priced) {
  PlanRequest at = request;
  ASSIGN_OR_RETURN(const proto::Plan least, MakeDraft(source, at));
  at.imbalance = 0;
  ASSIGN_OR_RETURN(const proto::Plan most, MakeDraft(source, at));
  // Bytes grow with slots, in a line but for gaps between registers.
  double fits = request.imbalance, too_much = WorstImbalance(source.graph, priced);
  int64_t bytes = MostDeviceBytes(priced);
  double slope =
      static_cast<double>(LeastDeviceBytes(most) - LeastDeviceBytes(least)) / (too_much - fits);
  for (int i = 0; i < kMostTries; ++i) {
    const auto free = static_cast<double>(request.cluster.device().memory_bytes() - bytes);
    const auto hundredths = [](double x) { return std::floor(100 * x) / 100; };
    at.imbalance = hundredths(fits + free / std::max(1.0, slope));
    if (at.imbalance <= fits || at.imbalance >= too_much) {
      at.imbalance = hundredths((fits + too_much) / 2);
    }
    if (at.imbalance <= fits) break;
    const absl::StatusOr<Planned> planned = MakePlan(source, at);
    if (!planned.ok()) {
      too_much = at.imbalance;
      continue;
    }
    const int64_t needed = MostDeviceBytes(planned->plan);
    slope = static_cast<double>(needed - bytes) / (at.imbalance - fits);
    fits = at.imbalance, bytes = needed;
  }
  return fits;
}

}  // namespace oneflow
