// A legal game over a program's net in which every stream carries a clock: how many firings of each
// stream of its own device it knows to be complete. Knowledge goes the way tokens go: with a fill
// to its readers, and with a returned slot back to the writer. No token leaves a device, so each
// stage is played by itself: that an exchange has completed here says nothing of other devices. The
// memory proof (happens_before.h) plays it to check who may write where, the memory planner
// (compiler/memory/lifetimes.h) to find out.
//
//   StreamClocks game(net, steps);
//   while (... nothing blocks game.marking().next(s)) {
//     game.Begin(s);     // counted, and knows what it has read and what credits told
//     ... game.Known(s, ...) ...
//     game.End(s);       // complete: readers and writers will hear of it
//   }
//
// A value: a copy is a second game at the same place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "oneflow_core/net/marking.h"
#include "oneflow_core/net/steady_state.h"
#include "oneflow_core/plan/places.h"

namespace oneflow {

// Whether the edge leaves the stream, so that program order does not carry it.
inline bool Crosses(const PlanNet& net, const NetRegister& r, const NetReader& reader) {
  return r.writer >= 0 && net.actors[r.writer].stream != net.actors[reader.actor].stream;
}

class StreamClocks {
 public:
  // At the initial marking of `steps` steps. The net must outlive the game and its copies.
  StreamClocks(const PlanNet& net, int64_t steps);

  const Marking& marking() const { return marking_; }
  // Firings of a stream so far; counted from Begin, before the firing writes: an actor must not
  // write over what it reads.
  int32_t count(int stream) const { return count_[stream]; }
  // How many firings of another stream of its stage `stream` knows to be complete.
  int32_t Known(int stream, int of) const {
    return known_[edges_->own[stream].begin + edges_->index[of]];
  }

  // Whether a stream may learn something when a firing of `actor` begins; else only from itself.
  bool Learns(int actor) const {
    const Edges& e = *edges_;
    return e.first_read[actor] < e.first_read[actor + 1] ||
           e.first_credit[actor] < e.first_credit[actor + 1];
  }

  // The next firing of a stream. Begin requires that nothing blocks it, End that it has begun.
  void Begin(int stream);
  void End(int stream);

  // What the streams have done and know, without what is on its way between them.
  struct Snapshot {
    std::vector<int32_t> counts, known;
  };
  Snapshot Now() const { return {count_, {known_.begin(), known_.begin() + edges_->own_end}}; }
  // Whether every count of every stream's clock has since then either stood still or gone as far as
  // the stream that it counts: what has to be so if all goes on alike (steady_state.h).
  bool MovesAlong(const Snapshot& since) const;

  // All that is known, by the streams and on its way between them: counts, which lie alike in all
  // games over the net.
  const std::vector<int32_t>& known() const { return known_; }
  void Forget(size_t count) { known_[count] = 0; }
  // Of each count of known(), what `by_stream` says of the stream that it counts.
  std::vector<int32_t> Spread(const std::vector<int32_t>& by_stream) const;
  // Takes a cycle `times` times at once, in each of which the streams fire so often and the counts
  // of known() move by so much; slots turn with their fills.
  void Skip(const Cycle& cycle, int64_t times, const std::vector<int32_t>& firings,
            const std::vector<int32_t>& moved);

 private:
  // All clocks of a game lie in one block, known_: first those of the streams, then those that
  // edges to other streams and devices carry, one a slot.
  struct Own {
    size_t begin = 0;
    int size = 0;  // streams of the stage
  };
  // Clocks of a register's fills, or of what one of its readers returns.
  struct Carried {
    size_t begin = 0;
    int64_t slots = 0;  // 0: nothing is carried
    int stream = 0;     // whose knowledge it is
    int reg = 0, reader = -1;
  };
  // An edge that leaves its stream, as its reader sees it and as its writer does; and a register
  // with such edges, as its writer sees it. Out of the plan's messages: a game asks often.
  struct Read {
    size_t filled, returned;  // where the clocks begin
    int64_t per_read, initial_fills, slots;
  };
  struct Credit {
    size_t returned;
    int64_t per_fill, initial_fills, slots;
  };
  struct Fill {
    size_t filled;
    int64_t per_fill, slots;
  };
  // By actor, and the end.
  struct Edges {
    std::vector<Own> own;    // by stream
    std::vector<int> index;  // by stream: of its count in the clocks of its stage
    std::vector<std::vector<int>>
        streams_of;      // by stage: its streams, as their counts lie in clocks
    size_t own_end = 0;  // of the streams' own clocks
    std::vector<Carried> carried;
    size_t end = 0;  // of all
    std::vector<Read> reads;
    std::vector<Credit> credits;
    std::vector<Fill> fills;
    std::vector<int> first_read, first_credit, first_fill;
  };
  class EdgesBuilder;

  // The stream learns what lies in a slot.
  void Learn(int stream, size_t slots, int64_t slot) {
    const Own& own = edges_->own[stream];
    const int32_t* told = &known_[slots + slot * own.size];
    int32_t* known = &known_[own.begin];
    for (int i = 0; i < own.size; ++i) known[i] = std::max(known[i], told[i]);
  }
  // What the stream knows now goes into a slot.
  void Tell(int stream, size_t slots, int64_t slot) {
    const Own& own = edges_->own[stream];
    std::copy_n(&known_[own.begin], own.size, &known_[slots + slot * own.size]);
  }
  // Fills, or reads, that are over.
  int64_t Told(const Carried& carried) const {
    const NetRegister& r = net_->registers[carried.reg];
    return carried.reader < 0 ? marking_.fills(r) : marking_.reads(r.readers[carried.reader]);
  }

  const PlanNet* net_;
  std::shared_ptr<const Edges> edges_;  // of the net; copies share it
  Marking marking_;
  std::vector<int32_t> count_;  // by stream
  std::vector<int32_t> known_;  // clocks
};

}  // namespace oneflow
