// A legal game over a program's net in which every stream carries a clock: what it knows to be
// complete. Knowledge goes the way tokens go: with a fill to its readers, and with a returned slot
// back to the writer. The memory proof (happens_before.h) plays it to check who may write where,
// the memory planner (compiler/memory/lifetimes.h) to find out.
//
//   StreamClocks game(net, axes, interests, steps);
//   while (... nothing blocks game.marking().next(s)) {
//     game.Begin(s);     // counted, and knows what it has read and what credits told
//     ... game.clock(s).known(...) ...
//     game.End(s);       // complete: readers and writers will hear of it
//   }
//
// A value: a copy is a second game at the same place.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "oneflow_core/plan/knowledge.h"
#include "oneflow_core/plan/marking.h"

namespace oneflow {

class StreamClocks {
 public:
  // At the initial marking of `steps` steps. All three must outlive the game and its copies.
  StreamClocks(const PlanNet& net, const AxisSets& axes, const Interests& interests, int64_t steps);

  const Marking& marking() const { return marking_; }
  Marking& marking() { return marking_; }
  // Firings of a stream so far; counted from Begin, before the firing writes: an actor must not
  // write over what it reads.
  int32_t count(int stream) const { return count_[stream]; }
  const Clock& clock(int stream) const { return clock_[stream]; }
  // Whether `stream` knows that the first `count` firings of `of` are complete on all devices
  // reached along `along`. Requires that a register of the stage of `stream` is touched by `of`.
  bool Knows(int stream, AxisSet along, int of, int32_t count) const;

  // How many firings of `of` on its own device `stream` knows to be complete. Requires the same.
  int32_t Completed(int stream, int of) const;

  // The next firing of a stream. Begin requires that nothing blocks it, End that it has begun.
  void Begin(int stream);
  void End(int stream);

  // What the streams have done and know, without what is on its way between them.
  struct Known {
    std::vector<int32_t> counts;
    std::vector<Clock> clocks;
  };
  Known known() const { return {count_, clock_}; }
  // Whether every count of every stream's clock has since then either stood still or gone as far as
  // the stream that it counts: what has to be so if all goes on alike (steady_state.h).
  bool MovesAlong(const Known& since) const;
  // The most slots of a register whose fills or returns carry knowledge: so many fills after the
  // streams' clocks have settled, what is on its way has, too.
  int64_t most_slots() const { return edges_->most_slots; }

  // The reader at input `i` of an actor, as a place among its register's readers.
  int ReaderIndex(int actor, int i) const { return edges_->reader_index[actor][i]; }

  // Calls fn(count, stream it counts, whether it is knowledge) for every count of the game's state,
  // clocks of slots in order of age: so games a whole cycle apart list like beside like.
  template <typename Self, typename Fn>
  static void ForCounts(Self& self, Fn fn);

 private:
  // Clocks that the edges of a register to other streams and devices carry, by slot.
  struct Carried {
    std::vector<Clock> filled;
    std::vector<std::vector<Clock>> returned;  // [reader][slot]
  };
  // Knowledge on its way: what an edge that leaves its stream is to the one who learns by it.
  struct Lesson {
    AxisSet along = 0;
    const std::vector<std::pair<int, int>>* common = nullptr;  // places of counts: theirs, ours
  };
  // An edge that leaves its stream, as its reader sees it and as its writer does; and a register
  // with such edges, as its writer sees it. Out of the plan's messages: a game asks often.
  struct Read {
    int reg, reader;
    int64_t per_read, initial_fills, slots;
    Lesson lesson;
  };
  struct Credit {
    int reg, reader;
    int64_t per_fill, initial_fills, slots;
    Lesson lesson;
  };
  struct Fill {
    int reg;
    int64_t per_fill, slots;
  };
  // By actor, and the end.
  struct Edges {
    std::vector<Read> reads;
    std::vector<Credit> credits;
    std::vector<Fill> fills;
    std::vector<int> first_read, first_credit, first_fill;
    std::vector<std::vector<int>> reader_index;  // [actor][input]
    int64_t most_slots = 1;
  };

  static std::shared_ptr<const Edges> EdgesOf(const PlanNet& net, const AxisSets& axes,
                                              const Interests& interests);
  void Prepare(const NetRegister& r, Carried* carried);
  int StageOf(int stream) const { return net_->streams[stream].proto->stage(); }
  Clock NewClock(int stream) const;
  void Learn(int stream, const Clock& other, const Lesson& lesson) {
    clock_[stream].Merge(other, lesson.along, *lesson.common);
  }
  static int64_t SlotOf(int64_t fill, int64_t slots) { return ((fill % slots) + slots) % slots; }

  const PlanNet* net_;
  const AxisSets* axes_;
  const Interests* interests_;
  std::shared_ptr<const Edges> edges_;  // of the net; copies share it
  Marking marking_;
  std::vector<int32_t> count_;    // by stream
  std::vector<Clock> clock_;      // by stream
  std::vector<Carried> carried_;  // by register
};

template <typename Self, typename Fn>
void StreamClocks::ForCounts(Self& self, Fn fn) {
  const auto clock = [&](auto& c, int stream) {
    const std::vector<int>& streams = self.interests_->of(self.StageOf(stream));
    for (size_t i = 0; i < c.counts().size(); ++i) {
      fn(c.counts()[i], streams[i % streams.size()], true);
    }
  };
  const auto slots = [&](auto& clocks, int64_t oldest, int stream) {
    const int64_t n = static_cast<int64_t>(clocks.size());
    for (int64_t i = 0; i < n; ++i) clock(clocks[SlotOf(oldest + i, n)], stream);
  };
  for (size_t s = 0; s < self.clock_.size(); ++s) {
    fn(self.count_[s], static_cast<int>(s), false);
    clock(self.clock_[s], static_cast<int>(s));
  }
  for (size_t id = 0; id < self.carried_.size(); ++id) {
    const NetRegister& r = self.net_->registers[id];
    auto& carried = self.carried_[id];
    if (r.writer >= 0) {
      slots(carried.filled, self.marking_.fills(r), self.net_->actors[r.writer].stream);
    }
    for (size_t k = 0; k < r.readers.size(); ++k) {
      slots(carried.returned[k], self.marking_.reads(r.readers[k]) - r.readers[k].initial_fills,
            self.net_->actors[r.readers[k].actor].stream);
    }
  }
}

}  // namespace oneflow
