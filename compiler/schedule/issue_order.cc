#include "compiler/schedule/issue_order.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "oneflow_core/base/runs.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/marking.h"
#include "oneflow_core/plan/plan_net.h"

namespace oneflow {
namespace {

// Invariants:
//  1. The marking counts firings that have ended. A stream that is busy has begun its next one.
//  2. A firing that may begin still may until it does: nobody else takes its fills or its slots.
class TimedGame {
 public:
  TimedGame(const PlanNet& net, const std::vector<double>& seconds)
      : net_(net), seconds_(seconds), marking_(net, Meeting::kFree), busy_(net.streams.size()) {
    int stages = 0;
    for (const NetActor& actor : net.actors) stages = std::max(stages, actor.stage + 1);
    begun_.resize(stages);
  }

  // Exchanges as they began, by stage.
  std::vector<std::vector<int>> Play() && {
    for (int s = 0; s < static_cast<int>(net_.streams.size()); ++s) BeginIfReady(s);
    while (!ends_.empty()) {
      now_ = std::get<0>(ends_.top());
      // All that ends at one moment is over before anything begins.
      std::vector<int> ended;
      for (; !ends_.empty() && std::get<0>(ends_.top()) == now_; ends_.pop()) {
        ended.push_back(std::get<2>(ends_.top()));
        End(ended.back());
      }
      for (const int s : ended) {
        for (const int other : net_.streams[s].neighbours) BeginIfReady(other);
      }
    }
    return std::move(begun_);
  }

 private:
  void BeginIfReady(int s) {
    if (busy_[s] || marking_.done(s)) return;
    const int actor = marking_.next(s), partner = marking_.PartnerOf(actor);
    if (partner >= 0 && busy_[net_.actors[partner].stream]) return;
    if (marking_.BlockerOf(actor)) return;
    Begin(actor);
    if (partner >= 0) Begin(partner);
    ends_.emplace(now_ + seconds_[actor], number_++, s);
  }

  void Begin(int actor) {
    busy_[net_.actors[actor].stream] = true;
    if (net_.actors[actor].exchange) begun_[net_.actors[actor].stage].push_back(actor);
  }

  void End(int s) {
    const int partner = marking_.PartnerOf(marking_.next(s));
    busy_[s] = false;
    if (partner >= 0) busy_[net_.actors[partner].stream] = false;
    marking_.Fire(s);
  }

  const PlanNet& net_;
  const std::vector<double>& seconds_;
  Marking marking_;
  std::vector<bool> busy_;               // by stream
  std::vector<std::vector<int>> begun_;  // by stage
  double now_ = 0;
  int64_t number_ = 0;
  using Event = std::tuple<double, int64_t, int>;  // when, in which order, stream
  std::priority_queue<Event, std::vector<Event>, std::greater<>> ends_;
};

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

// What repeats itself inside of what repeats itself as runs of its own: (a a b)×2 as a×2 b a×2 b.
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
  const std::vector<std::vector<int>> begun = TimedGame(net, seconds).Play();
  IssueOrders orders;
  for (int stage = 0; stage < static_cast<int>(begun.size()); ++stage) {
    if (!begun[stage].empty()) orders.push_back(Coded(stage, begun[stage]));
  }
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
