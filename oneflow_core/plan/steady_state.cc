#include "oneflow_core/plan/steady_state.h"

#include <algorithm>
#include <limits>

namespace oneflow {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

// How often a counter of firings may go on as from `from` to `to` without its fills behaving
// otherwise: for ever if it moves by whole fills; else while it stays inside one fill, if it did.
int64_t TimesOf(int64_t from, int64_t to, int64_t per_fill) {
  const int64_t moved = to - from;
  if (moved % per_fill == 0) return kForever;
  if (from % per_fill == 0 || from / per_fill != to / per_fill) return 0;
  return (per_fill - 1 - to % per_fill) / moved;
}

// Repeats that the streams' runs leave for more of the same; 0 if a stream is not where it was.
int64_t TimesOfPlaces(const PlanNet& net, const Marking& from, const Marking& to, Cycle* cycle) {
  int64_t times = kForever;
  for (size_t s = 0; s < net.streams.size(); ++s) {
    const StreamPlace &a = from.place(s), &b = to.place(s);
    if (a.step != b.step || a.run != b.run || a.index != b.index) return 0;
    const int64_t repeats = b.repeat - a.repeat;
    cycle->repeats.push_back(repeats);
    if (repeats == 0) continue;
    times = std::min(times, (net.streams[s].runs[b.run].repeat - 1 - b.repeat) / repeats);
  }
  return times == kForever ? 0 : times;  // nothing moved
}

int64_t TimesOfFills(const NetRegister& r, const Marking& from, const Marking& to) {
  int64_t times = TimesOf(from.fired(r.writer), to.fired(r.writer), r.proto->fires_per_fill());
  const int64_t fills = to.fills(r) - from.fills(r);
  for (const NetReader& reader : r.readers) {
    if (to.reads(reader) - from.reads(reader) != fills) return 0;
    times = std::min(
        times, TimesOf(from.fired(reader.actor), to.fired(reader.actor), reader.fires_per_read));
  }
  return times;
}

}  // namespace

Cycle CycleBetween(const PlanNet& net, const Marking& from, const Marking& to) {
  Cycle cycle;
  cycle.times = TimesOfPlaces(net, from, to, &cycle);
  for (const NetRegister& r : net.registers) {
    if (cycle.times == 0) return {};
    if (r.writer >= 0) cycle.times = std::min(cycle.times, TimesOfFills(r, from, to));
  }
  return cycle;
}

void Skip(const Cycle& cycle, int64_t times, Marking* marking) {
  for (size_t s = 0; s < cycle.repeats.size(); ++s) {
    if (cycle.repeats[s] > 0) marking->SkipRepeats(static_cast<int>(s), times * cycle.repeats[s]);
  }
}

SteadyState::SteadyState(const PlanNet& net) : net_(net) {
  int64_t most = 1;
  for (size_t s = 0; s < net.streams.size(); ++s) {
    for (const NetStream::Run& run : net.streams[s].runs) {
      if (run.repeat > most) most = run.repeat, pilot_ = static_cast<int>(s);
    }
  }
}

bool SteadyState::AtRepeat(int stream, const Marking& marking) {
  if (stream != pilot_ || marking.done(stream) || marking.place(stream) == last_) return false;
  last_ = marking.place(stream);
  return last_.index == 0 && last_.repeat > 0;
}

Cycle SteadyState::Find(const Marking& marking) {
  Cycle cycle;
  for (auto it = seen_.rbegin(); it != seen_.rend() && cycle.times == 0; ++it) {
    cycle = CycleBetween(net_, *it, marking);
  }
  seen_.push_back(marking);
  if (seen_.size() > kRemembered) seen_.pop_front();
  return cycle;
}

}  // namespace oneflow
