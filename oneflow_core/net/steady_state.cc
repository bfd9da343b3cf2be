#include "oneflow_core/net/steady_state.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace oneflow {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
// Micro-batches of a round; orders that need more are played to the end.
constexpr int64_t kMostTogether = 1 << 16;

// How often the change of a firing counter from `from` to `to` may repeat with the same effect on
// its fills: without limit if it is a multiple of a fill; otherwise while the counter stays inside
// the fill in which it began.
int64_t RepeatsOfCounter(int64_t from, int64_t to, int64_t per_fill) {
  const int64_t moved = to - from;
  if (per_fill == 1 || moved % per_fill == 0) return kForever;
  if (from % per_fill == 0 || from / per_fill != to / per_fill) return 0;
  return (per_fill - 1 - to % per_fill) / moved;
}

// How often more of the same may be taken as led from `a` to `b`, positions in `runs`; 0 if they
// are not the same position of one run.
int64_t RepeatsLeft(const StreamPosition& a, const StreamPosition& b,
                    const std::vector<NetStream::Run>& runs, Cycle* cycle) {
  if (a.step != b.step || a.run != b.run || a.index != b.index) return 0;
  const int64_t repeats = b.repeat - a.repeat;
  cycle->repeats.push_back(repeats);
  return repeats == 0 ? kForever : (runs[b.run].repeat - 1 - b.repeat) / repeats;
}

// Repeats that the orders' runs leave for more of the same; 0 if one is not where it was.
int64_t RepeatsLeftInOrders(const PlanNet& net, const Marking& from, const Marking& to,
                            Cycle* cycle) {
  int64_t times = kForever;
  for (size_t s = 0; s < net.streams.size() && times > 0; ++s) {
    times =
        std::min(times, RepeatsLeft(from.position(s), to.position(s), net.streams[s].runs, cycle));
  }
  for (size_t i = 0; i < to.issue_positions().size() && times > 0; ++i) {
    times = std::min(times, RepeatsLeft(from.issue_positions()[i], to.issue_positions()[i],
                                        net.issues[i].runs, cycle));
  }
  return times == kForever ? 0 : times;  // nothing moved
}

// Times that an edge leaves: 0 unless its reader went on by as many fills as its writer.
int64_t RepeatsOverEdge(const Marking& from, const Marking& to, int writer, int64_t per_fill,
                        int reader, int64_t per_read) {
  const int64_t a = from.fired(writer), b = to.fired(writer);
  const int64_t times = RepeatsOfCounter(a, b, per_fill);
  if (reader < 0) return times;
  const int64_t c = from.fired(reader), d = to.fired(reader);
  if (Quotient(d, per_read) - Quotient(c, per_read) !=
      Quotient(b, per_fill) - Quotient(a, per_fill))
    return 0;
  return std::min(times, RepeatsOfCounter(c, d, per_read));
}

}  // namespace

Cycle CycleBetween(const PlanNet& net, const Marking& from, const Marking& to) {
  Cycle cycle;
  cycle.times = RepeatsLeftInOrders(net, from, to, &cycle);
  if (cycle.times == 0) return {};
  // Edges over which nobody waits change equally, since every stream has the same position in its
  // run.
  to.ForWaits([&](int writer, int64_t per_fill, int reader, int64_t per_read) {
    if (cycle.times == 0) return;
    cycle.times =
        std::min(cycle.times, RepeatsOverEdge(from, to, writer, per_fill, reader, per_read));
  });
  return cycle.times == 0 ? Cycle() : cycle;
}

void Skip(const Cycle& cycle, int64_t times, Marking* marking) {
  const int streams = static_cast<int>(cycle.repeats.size() - marking->issue_positions().size());
  for (int i = 0; i < static_cast<int>(cycle.repeats.size()); ++i) {
    if (cycle.repeats[i] == 0) continue;
    const int64_t repeats = times * cycle.repeats[i];
    i < streams ? marking->SkipRepeats(i, repeats)
                : marking->SkipIssueRepeats(i - streams, repeats);
  }
}

Round::Round(const PlanNet& net, const Marking& begin) : begin_(begin) {
  // Micro-batches that a repeat of each stream's present run takes, and all of them together.
  std::vector<int64_t> a_repeat(net.streams.size(), 1);
  int64_t together = 1;
  for (size_t s = 0; s < net.streams.size(); ++s) {
    if (begin.done(static_cast<int>(s))) continue;
    const std::vector<int>& actors = net.streams[s].runs[begin.position(s).run].actors;
    a_repeat[s] = std::count(actors.begin(), actors.end(), actors.front());
    together = std::lcm(together, a_repeat[s]);
    if (together > kMostTogether) together = 1;
  }
  for (size_t s = 0; s < net.streams.size(); ++s) {
    StreamPosition p = begin.position(s);
    const NetStream& stream = net.streams[s];
    if (!begin.done(static_cast<int>(s))) {
      p.repeat += std::max<int64_t>(1, together / a_repeat[s]);
      if (p.repeat >= stream.runs[p.run].repeat) {
        p = p.run + 1 < stream.runs.size() ? StreamPosition{p.step, p.run + 1}
                                           : StreamPosition{p.step + 1};
      }
    }
    end_.push_back(p);
  }
}

}  // namespace oneflow
