#include "planning/recipe/price_queues.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/plan/arenas.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {
namespace {

int64_t MostInt(const proto::Graph& graph, const char* attr) {
  int64_t most = 0;
  for (const proto::Op& op : graph.op()) {
    const auto found = op.attr().find(attr);
    if (found != op.attr().end()) most = std::max<int64_t>(most, found->second.i());
  }
  return most;
}

// Those of the experts: as many as devices that split them.
int64_t CountGroups(const proto::Plan& priced) {
  int64_t groups = 1;
  for (const proto::Program& program : priced.program()) {
    for (const proto::Actor& actor : program.actor()) {
      const auto found = actor.attr().find("groups");
      if (found == actor.attr().end() || !actor.attr().contains("imbalance")) continue;
      groups = std::max<int64_t>(groups, found->second.i());
    }
  }
  return groups;
}

// The imbalance of one device that gets all tokens: more changes nothing.
double WorstImbalance(const proto::Graph& graph, const proto::Plan& priced) {
  const int64_t groups = CountGroups(priced);
  const int64_t choices = std::max<int64_t>(1, MostInt(graph, "choices"));
  const int64_t of_group = MostInt(graph, "experts") / groups;
  return static_cast<double>(groups * std::min(choices, of_group)) / static_cast<double>(choices);
}

}  // namespace

bool IsDropless(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(), [](const proto::Op& op) {
    return op.attr().contains("choices") && !op.attr().contains("capacity");
  });
}

double FindImbalance(const proto::Plan& plan) {
  for (const proto::Program& program : plan.program()) {
    for (const proto::Actor& actor : program.actor()) {
      const auto found = actor.attr().find("imbalance");
      if (found != actor.attr().end()) return found->second.f();
    }
  }
  return 0;
}

std::string MostImbalance::Text() const {
  return absl::StrCat(at_least ? "at least " : "", "imbalance ", value);
}

absl::StatusOr<MostImbalance> FindMostImbalance(const GraphSource& source,
                                                const PlanRequest& request,
                                                const proto::Plan& priced,
                                                const LookingTime& time) {
  const double begin = time.clock();
  PlanRequest at = request;
  ASSIGN_OR_RETURN(const proto::Plan least, MakeDraft(source, at));
  at.imbalance = 0;
  ASSIGN_OR_RETURN(const proto::Plan most, MakeDraft(source, at));
  // Bytes grow with slots, in a line but for gaps between registers. In hundredths:
  const double worst = 100 * WorstImbalance(source.graph, priced);
  auto fits = static_cast<int64_t>(100 * request.imbalance);
  auto too_much = static_cast<int64_t>(std::ceil(worst));
  int64_t bytes = MostDeviceBytes(priced);
  double slope = static_cast<double>(LeastDeviceBytes(most) - LeastDeviceBytes(least)) /
                 (worst - 100 * request.imbalance);
  MostImbalance found{.value = request.imbalance};
  double a_plan = time.a_plan;  // seconds of the last
  while (fits + 1 < too_much) {
    const double now = time.clock();
    found.at_least = now - begin + a_plan > time.most;
    if (found.at_least) break;
    const auto free = static_cast<double>(UsableBytes(request.cluster.device()) - bytes);
    int64_t next = fits + std::max<int64_t>(1, static_cast<int64_t>(free / std::max(1.0, slope)));
    if (next >= too_much) next = (fits + too_much) / 2;
    at.imbalance = static_cast<double>(next) / 100;
    const absl::StatusOr<Planned> planned = MakePlan(source, at);
    a_plan = time.clock() - now;
    if (absl::IsResourceExhausted(planned.status())) {
      too_much = next;
      continue;
    }
    RETURN_IF_ERROR(planned.status());
    const int64_t needed = MostDeviceBytes(planned->plan);
    slope = static_cast<double>(needed - bytes) / static_cast<double>(next - fits);
    fits = next, bytes = needed, found.value = at.imbalance;
  }
  return found;
}

std::string SlotsFlags(double imbalance, const proto::Plan& priced) {
  return absl::StrCat("--slots=", imbalance, " --slot_groups=", CountGroups(priced));
}

}  // namespace oneflow
