#include "planning/simulate/period.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace oneflow {
namespace {

using Event = ClockState::Event;

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

std::vector<Event> InOrder(const ClockState& state) {
  std::vector<Event> events = state.events;
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return b < a; });
  return events;
}

// Calls fn(stream, index of an actor in it, its concrete number).
template <typename Fn>
void ForActors(const ActorNet& net, Fn fn) {
  for (size_t s = 0; s < net.streams.size(); ++s) {
    for (size_t i = 0; i < net.streams[s].actors.size(); ++i) {
      fn(s, i, net.streams[s].actors[i]);
    }
  }
}

uint64_t HashWords(const std::vector<int64_t>& words) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const int64_t word : words) {
    hash = std::rotl((hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccd, 29);
  }
  return hash;
}

// The number of times that the change of a firing counter from `from` to `to` may repeat without a
// change in its fills: for ever if it moves by complete fills; else while it stays inside a fill
// that has begun.
int64_t CountTimes(int64_t from, int64_t to, int64_t per_fill) {
  const int64_t moved = to - from;
  if (per_fill <= 1 || moved % per_fill == 0) return kForever;
  if (from % per_fill == 0 || from / per_fill != to / per_fill) return 0;
  return (per_fill - 1 - to % per_fill) / moved;
}

}  // namespace

PeriodFinder::PeriodFinder(const ActorNet& net, double most_ahead)
    : net_(net), most_ahead_(most_ahead) {
  for (size_t s = 0; s < net.streams.size(); ++s) {
    if (watched_ < 0 || net.streams[s].firings.size() > net.streams[watched_].firings.size()) {
      watched_ = static_cast<int32_t>(s);
    }
  }
}

bool PeriodFinder::Due(const ClockState& state, int64_t begun) const {
  // A look costs about as much as a quarter of so many firings.
  if (watched_ < 0 || begun < looked_at_ + static_cast<int64_t>(net_.specs.size())) return false;
  const FiringOrder& order = net_.streams[watched_].firings;
  const FiringOrder::Cursor& next = state.streams[watched_].next;
  return order.BeginsRepeat(next) && order.RepeatsLeft(next) > 0;
}

PeriodFinder::Moment PeriodFinder::MakeMoment(const ClockState& state, int64_t begun) const {
  Moment moment{0, state.now, begun};
  std::vector<int64_t>& words = moment.state;
  for (size_t s = 0; s < state.streams.size(); ++s) {
    const ClockState::Stream& stream = state.streams[s];
    moment.cursors.push_back(stream.next);
    for (const int64_t word : net_.streams[s].firings.RunAndIndex(stream.next))
      words.push_back(word);
    // The firing that ran last, and is over, does not matter.
    const bool running = state.actors[s].counts.size() > 0 && stream.running >= 0 &&
                         state.actors[s].counts[stream.running].issued !=
                             state.actors[s].counts[stream.running].completed;
    for (const int64_t word :
         {stream.step, running ? int64_t{stream.running} : -1, running ? stream.running_step : -1,
          int64_t{stream.entered} + 2 * int64_t{stream.landed} + 4 * int64_t{stream.occupies}}) {
      words.push_back(word);
    }
    words.insert(words.end(), state.actors[s].tokens.begin(), state.actors[s].tokens.end());
  }
  for (const ClockState::Worker& worker : state.workers) {
    words.push_back(2 * static_cast<int64_t>(worker.look_first) + (worker.busy ? 1 : 0));
  }
  words.insert(words.end(), state.missing.begin(), state.missing.end());
  for (const double issued : state.issued) {
    words.push_back(std::bit_cast<int64_t>(std::max(issued - state.now, -most_ahead_)));
  }
  for (const Event& event : InOrder(state)) {
    const bool landed = event.message == Event::kLanded;
    const Message m = event.message < 0 ? Message() : state.messages[event.message];
    const int64_t seconds = std::bit_cast<int64_t>(event.time - state.now);
    words.insert(words.end(), {seconds, event.stream, landed, m.to_rank, m.actor,
                               static_cast<int64_t>(m.kind), m.port});
    moment.sequences.push_back(static_cast<int64_t>(m.sequence));
  }
  moment.issued.resize(net_.specs.size());
  moment.completed.resize(net_.specs.size());
  ForActors(net_, [&](size_t s, size_t i, int32_t actor) {
    moment.issued[actor] = state.actors[s].counts[i].issued;
    moment.completed[actor] = state.actors[s].counts[i].completed;
  });
  moment.recorded = state.recorded;
  moment.hash = HashWords(words);
  return moment;
}

std::optional<Period> PeriodFinder::Look(const ClockState& state, int64_t begun) {
  looked_at_ = begun;
  Moment now = MakeMoment(state, begun);
  std::optional<Period> period;
  for (const Moment* from : {&previous_, &saved_}) {
    if (!period && from->hash == now.hash) period = Between(*from, now);
  }
  // Hashes are kept of all moments, but the state of two only: one that came before is kept until
  // it comes once more.
  if (!seen_.insert(now.hash).second && saved_.hash != now.hash) saved_ = now;
  previous_ = std::move(now);
  return period;
}

std::optional<Period> PeriodFinder::Between(const Moment& from, const Moment& to) const {
  if (from.state != to.state) return std::nullopt;
  Period period;
  period.times = kForever;
  for (size_t s = 0; s < net_.streams.size(); ++s) {
    const int64_t repeats = FiringOrder::RepeatsBetween(from.cursors[s], to.cursors[s]);
    period.repeats.push_back(repeats);
    if (repeats == 0) continue;
    period.times =
        std::min(period.times, net_.streams[s].firings.RepeatsLeft(to.cursors[s]) / repeats);
  }
  ForActors(net_, [&](size_t s, size_t i, int32_t actor) {
    const ActorTable& table = net_.streams[s].table;
    for (int32_t p = table.actors[i].first_port; p < table.actors[i].end_port; ++p) {
      for (const auto& count : {&Moment::issued, &Moment::completed}) {
        period.times = std::min(period.times, CountTimes((from.*count)[actor], (to.*count)[actor],
                                                         table.ports[p].rate));
      }
    }
  });
  if (period.times <= 0 || period.times == kForever) return std::nullopt;
  const auto difference = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    std::vector<int64_t> moved(b.size());
    for (size_t i = 0; i < b.size(); ++i) moved[i] = b[i] - a[i];
    return moved;
  };
  period.seconds = to.now - from.now;
  period.firings_before = from.begun;
  period.issued = difference(from.issued, to.issued);
  period.completed = difference(from.completed, to.completed);
  period.recorded = difference(from.recorded, to.recorded);
  period.sequences = difference(from.sequences, to.sequences);
  return period;
}

void PeriodFinder::Forget() {
  previous_ = saved_ = Moment();
  seen_.clear();
}

void Skip(const ActorNet& net, const Period& period, ClockState* state) {
  const double seconds = static_cast<double>(period.times) * period.seconds;
  state->now += seconds;
  for (double& issued : state->issued) issued += seconds;
  std::vector<Event> events = InOrder(*state);
  for (size_t e = 0; e < events.size(); ++e) {
    events[e].time += seconds;
    if (events[e].message < 0) continue;
    state->messages[events[e].message].sequence +=
        static_cast<uint64_t>(period.times * period.sequences[e]);
  }
  state->events = std::move(events);
  std::make_heap(state->events.begin(), state->events.end());
  for (size_t s = 0; s < net.streams.size(); ++s) {
    net.streams[s].firings.SkipRepeats(period.times * period.repeats[s], &state->streams[s].next);
    if (state->streams[s].running < 0) continue;
    const int32_t running = net.streams[s].actors[state->streams[s].running];
    state->streams[s].firing += period.times * period.issued[running];
  }
  ForActors(net, [&](size_t s, size_t i, int32_t actor) {
    const ActorTable& table = net.streams[s].table;
    ActorStates& states = state->actors[s];
    const int64_t moved = period.times * period.issued[actor];
    states.counts[i].issued += moved;
    states.counts[i].completed += period.times * period.completed[actor];
    for (int32_t p = table.actors[i].first_port; p < table.actors[i].end_port; ++p) {
      const ActorTable::Port& port = table.ports[p];
      if (port.rate <= 0) continue;
      if (moved % port.rate != 0) {
        states.left[p] -= static_cast<int32_t>(moved);  // inside one fill
      } else if (port.buffers > 1) {
        states.buffers[p] =
            static_cast<int32_t>((states.buffers[p] + moved / port.rate) % port.buffers);
      }
    }
  });
}

}  // namespace oneflow
