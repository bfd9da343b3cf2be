#include "compiler/schedule/issue_order.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/timed_game.h"
#include "oneflow_core/base/runs.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {
namespace {

proto::IssueOrder Coded(int stage, const std::vector<int>& actors) {
  proto::IssueOrder order;
  order.set_stage(stage);
  for (const Run& run : FindRuns(actors)) {
    proto::ActorRun* coded = order.add_run();
    coded->set_repeat(static_cast<int>(run.repeat));
    for (size_t i = 0; i < run.length; ++i) coded->add_actor(actors[run.begin + i]);
  }
  return order;
}

bool SameActors(const proto::ActorRun& a, const proto::ActorRun& b) {
  return std::equal(a.actor().begin(), a.actor().end(), b.actor().begin(), b.actor().end());
}

// Repeats inside of repeats become runs of their own: (a a b)×2 as a×2 b a×2 b.
proto::IssueOrder Unfolded(const proto::IssueOrder& order) {
  proto::IssueOrder unfolded;
  unfolded.set_stage(order.stage());
  for (const proto::ActorRun& run : order.run()) {
    const std::vector<int> actors(run.actor().begin(), run.actor().end());
    const proto::IssueOrder inner = Coded(order.stage(), actors);
    const bool repeats = std::any_of(inner.run().begin(), inner.run().end(),
                                     [](const proto::ActorRun& part) { return part.repeat() > 1; });
    if (!repeats) {
      *unfolded.add_run() = run;
      continue;
    }
    for (int i = 0; i < run.repeat(); ++i) unfolded.mutable_run()->MergeFrom(inner.run());
  }
  return unfolded;
}

// None, if the runs are not the same.
std::optional<proto::IssueOrder> ExtendedAsWritten(const proto::IssueOrder& few,
                                                   const proto::IssueOrder& more, int64_t times) {
  if (few.run_size() != more.run_size()) return std::nullopt;
  proto::IssueOrder extended = few;
  for (int r = 0; r < few.run_size(); ++r) {
    const proto::ActorRun &a = few.run(r), &b = more.run(r);
    const int64_t further = b.repeat() - a.repeat();
    if (!SameActors(a, b) || further < 0) return std::nullopt;
    extended.mutable_run(r)->set_repeat(static_cast<int>(a.repeat() + times * further));
  }
  return extended;
}

}  // namespace

absl::StatusOr<IssueOrders> PlayIssueOrders(const proto::Plan& plan, const proto::Program& program,
                                            const std::vector<double>& seconds) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, program));
  std::map<int, std::vector<int>> begun;  // by stage: exchanges
  PlayByClock(
      net, seconds,
      [&](int actor, double) {
        if (net.actors[actor].exchange) begun[net.actors[actor].stage].push_back(actor);
      },
      [](int, double) {});
  IssueOrders orders;
  for (const auto& [stage, actors] : begun) orders.push_back(Coded(stage, actors));
  return orders;
}

std::optional<IssueOrders> Extended(const IssueOrders& few, const IssueOrders& more,
                                    int64_t times) {
  if (few.size() != more.size()) return std::nullopt;
  IssueOrders extended;
  for (size_t i = 0; i < few.size(); ++i) {
    std::optional<proto::IssueOrder> order = ExtendedAsWritten(few[i], more[i], times);
    if (!order) order = ExtendedAsWritten(Unfolded(few[i]), Unfolded(more[i]), times);
    if (!order) return std::nullopt;
    extended.push_back(*std::move(order));
  }
  return extended;
}

}  // namespace oneflow
