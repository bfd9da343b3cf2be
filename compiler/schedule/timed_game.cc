#include "compiler/schedule/timed_game.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>

#include "oneflow_core/net/marking.h"

namespace oneflow {
namespace {

// Invariants:
//  1. The marking counts firings that have ended. A stream that is busy has begun its next one.
//  2. A firing that may begin still may until it does: nobody else takes its fills or its slots.
class TimedGame {
 public:
  using Listener = absl::FunctionRef<void(int actor, double now)>;
  TimedGame(const PlanNet& net, const std::vector<double>& seconds, Listener begin, Listener end)
      : net_(net),
        seconds_(seconds),
        begin_(begin),
        end_(end),
        marking_(net, Meeting::kFree),
        busy_(net.streams.size()),
        freed_(net.actors.size()) {
    for (size_t a = 0; a < net.actors.size(); ++a) freed_[a] = FreedBy(static_cast<int>(a));
  }

  double Play() {
    for (int s = 0; s < static_cast<int>(net_.streams.size()); ++s) BeginIfReady(s);
    std::vector<int> ended;  // actors
    while (!ends_.empty()) {
      now_ = std::get<0>(ends_.top());
      for (ended.clear(); !ends_.empty() && std::get<0>(ends_.top()) == now_; ends_.pop()) {
        const int s = std::get<2>(ends_.top()), actor = marking_.next(s);
        ended.push_back(actor);
        if (marking_.Partner(actor) >= 0) ended.push_back(marking_.Partner(actor));
        End(s);
      }
      for (const int actor : ended) {
        for (const int s : freed_[actor]) BeginIfReady(s);
      }
    }
    return now_;
  }

 private:
  // The streams that an actor's firing may free: its own, and those that it gives fills or slots
  // to.
  std::vector<int> FreedBy(int actor) const {
    std::vector<int> streams = {net_.actors[actor].stream};
    const auto add = [&](int other) {
      const int s = net_.actors[other].stream;
      if (std::find(streams.begin(), streams.end(), s) == streams.end()) streams.push_back(s);
    };
    for (const NetInput& input : net_.inputs_of(actor)) {
      if (net_.registers[input.reg].writer >= 0) add(net_.registers[input.reg].writer);
    }
    for (const int id : net_.outputs_of(actor)) {
      for (const NetReader& reader : net_.registers[id].readers) add(reader.actor);
    }
    return streams;
  }

  void BeginIfReady(int s) {
    if (busy_[s] || marking_.done(s)) return;
    const int actor = marking_.next(s), partner = marking_.Partner(actor);
    if (partner >= 0 && busy_[net_.actors[partner].stream]) return;
    if (marking_.FindBlocker(actor)) return;
    Begin(actor);
    if (partner >= 0) Begin(partner);
    ends_.emplace(now_ + seconds_[actor], number_++, s);
  }

  void Begin(int actor) {
    busy_[net_.actors[actor].stream] = true;
    begin_(actor, now_);
  }

  void End(int s) {
    const int actor = marking_.next(s), partner = marking_.Partner(actor);
    busy_[s] = false;
    if (partner >= 0) busy_[net_.actors[partner].stream] = false;
    marking_.Fire(s);
    end_(actor, now_);
    if (partner >= 0) end_(partner, now_);
  }

  const PlanNet& net_;
  const std::vector<double>& seconds_;
  const Listener begin_, end_;
  Marking marking_;
  std::vector<bool> busy_;               // by stream
  std::vector<std::vector<int>> freed_;  // by actor
  double now_ = 0;
  int64_t number_ = 0;
  using Event = std::tuple<double, int64_t, int>;  // when, in which order, stream
  std::priority_queue<Event, std::vector<Event>, std::greater<>> ends_;
};

}  // namespace

double PlayByClock(const PlanNet& net, const std::vector<double>& seconds,
                   absl::FunctionRef<void(int actor, double now)> begin,
                   absl::FunctionRef<void(int actor, double now)> end) {
  return TimedGame(net, seconds, begin, end).Play();
}

}  // namespace oneflow
