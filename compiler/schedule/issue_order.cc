#include "compiler/schedule/issue_order.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/timed_game.h"
#include "oneflow_core/base/runs.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_net.h"

namespace oneflow {
namespace {

proto::IssueOrder Coded(int stage, const std::vector<int>& actors) {
  proto::IssueOrder order;
  order.set_stage(stage);
  for (const Run& run : RunsOf(actors)) {
    proto::ActorRun* coded = order.add_run();
    coded->set_repeat(static_cast<int>(run.repeat));
    for (size_t i = 0; i < run.length; ++i) coded->add_actor(actors[run.begin + i]);
  }
  return order;
}

bool SameActors(const proto::ActorRun& a, const proto::ActorRun& b) {
  return std::equal(a.actor().begin(), a.actor().end(), b.actor().begin(), b.actor().end());
}

}  // namespace

absl::StatusOr<IssueOrders> PlayIssueOrders(const proto::Plan& plan, const proto::Program& program,
                                            const std::vector<double>& seconds) {
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, program));
  std::map<int, std::vector<int>> begun;  // by stage: exchanges
  PlayByClock(
      net, seconds,
      [&](int actor) {
        if (net.actors[actor].exchange) begun[net.actors[actor].stage].push_back(actor);
      },
      [](int) {});
  IssueOrders orders;
  for (const auto& [stage, actors] : begun) orders.push_back(Coded(stage, actors));
  return orders;
}

std::optional<IssueOrders> Extended(const IssueOrders& few, const IssueOrders& more,
                                    int64_t times) {
  if (few.size() != more.size()) return std::nullopt;
  IssueOrders extended = few;
  for (size_t i = 0; i < few.size(); ++i) {
    if (few[i].run_size() != more[i].run_size()) return std::nullopt;
    for (int r = 0; r < few[i].run_size(); ++r) {
      const proto::ActorRun &a = few[i].run(r), &b = more[i].run(r);
      const int64_t further = b.repeat() - a.repeat();
      if (!SameActors(a, b) || further < 0) return std::nullopt;
      extended[i].mutable_run(r)->set_repeat(static_cast<int>(a.repeat() + times * further));
    }
  }
  return extended;
}

}  // namespace oneflow
