// A legal game over a program's net in which every stream carries a vector clock: how many firings
// of each stream of its own device it knows to be complete. Clocks travel with tokens: with a fill
// to its readers, and with a returned slot back to the writer. No token leaves a device, so each
// stage is played alone: the completion of an exchange on this device says nothing about the
// others. The memory proof (happens_before.h) plays the game to check that each write may take its
// bytes. The memory planner (compiler/memory/lifetimes.h) plays it to find lifetimes.
//
//   StreamClocks game(net, steps);
//   while (... nothing blocks game.marking().next(s)) {
//     game.Begin(s);     // counted; its clock includes the clocks of its inputs and credits
//     ... game.Known(s, ...) ...
//     game.End(s);       // complete; its clock is stored for its readers and writers
//   }
//
// The game is a value: a copy is a second game in the same state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "oneflow_core/net/marking.h"
#include "oneflow_core/net/steady_state.h"
#include "oneflow_core/plan/buffers.h"

namespace oneflow {

// True if reader and writer are on different streams, so that program order does not order them.
inline bool Crosses(const PlanNet& net, const NetRegister& r, const NetReader& reader) {
  return r.writer >= 0 && net.actors[r.writer].stream != net.actors[reader.actor].stream;
}

class StreamClocks {
 public:
  // At the initial marking of `steps` steps. The net must outlive the game and its copies.
  StreamClocks(const PlanNet& net, int64_t steps);

  const Marking& marking() const { return marking_; }
  // Firings of a stream so far. Counted from Begin, before the firing writes, because an actor must
  // not write over its own inputs.
  int32_t count(int stream) const { return count_[stream]; }
  // The number of firings of another stream of its stage that `stream` knows to be complete.
  int32_t Known(int stream, int of) const {
    return known_[edges_->own[stream].begin + edges_->index[of]];
  }

  // Gives the same in two steps, for many streams `of` in a row: KnownBy(stream)[indices()[of]].
  const int32_t* KnownBy(int stream) const { return &known_[edges_->own[stream].begin]; }
  const int* indices() const { return edges_->index.data(); }

  // True if a firing of `actor` may update its stream's clock when it begins, by tokens of others.
  bool ReceivesUpdates(int actor) const {
    const Edges& e = *edges_;
    return e.first_read[actor] < e.first_read[actor + 1] ||
           e.first_credit[actor] < e.first_credit[actor + 1];
  }

  // The next firing of a stream. Begin requires that nothing blocks it, End that it has begun.
  void Begin(int stream);
  void End(int stream);

  // Counts and clocks of the streams, without the clocks stored in slots.
  struct Snapshot {
    std::vector<int32_t> counts, known;
  };
  Snapshot Now() const { return {count_, {known_.begin(), known_.begin() + edges_->own_end}}; }
  // True if since then every entry of every stream's clock has either stood still or advanced as
  // far as the stream that it counts. A necessary condition of a steady state (steady_state.h).
  bool MovesAlong(const Snapshot& since) const;

  // All clocks, of the streams and of the slots, entry by entry. The order is the same in all games
  // over the net.
  const std::vector<int32_t>& known() const { return known_; }
  void Forget(size_t count) { known_[count] = 0; }
  // For each entry of known(): the value in `by_stream` of the stream that the entry counts.
  std::vector<int32_t> Spread(const std::vector<int32_t>& by_stream) const;
  // Takes a cycle `times` times at once. In each cycle stream s fires firings[s] times and entry i
  // of known() advances by moved[i]; the clocks of slots rotate with their fills.
  void Skip(const Cycle& cycle, int64_t times, const std::vector<int32_t>& firings,
            const std::vector<int32_t>& moved);

 private:
  // All clocks of a game are in one block, known_: first those of the streams, then those stored in
  // the slots of edges to other streams, one a slot.
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
  // An edge that leaves its stream, as its reader (Read) and its writer (Credit) see it; and a
  // register with such edges, as its writer sees it (Fill). Copied out of the plan's messages,
  // because a game asks for them at every firing.
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
        streams_of;      // by stage: its streams, in the order of the entries of clocks
    size_t own_end = 0;  // of the streams' own clocks
    std::vector<Carried> carried;
    size_t end = 0;  // of all
    std::vector<Read> reads;
    std::vector<Credit> credits;
    std::vector<Fill> fills;
    std::vector<int> first_read, first_credit, first_fill;
  };
  class EdgesBuilder;

  // Joins the clock of a slot into the stream's own: the entry-wise maximum.
  void MergeUpdate(int stream, size_t slots, int64_t slot) {
    const Own& own = edges_->own[stream];
    const int32_t* stored = &known_[slots + slot * own.size];
    int32_t* known = &known_[own.begin];
    for (int i = 0; i < own.size; ++i) known[i] = std::max(known[i], stored[i]);
  }
  // Stores the stream's clock in a slot.
  void StoreUpdate(int stream, size_t slots, int64_t slot) {
    const Own& own = edges_->own[stream];
    std::copy_n(&known_[own.begin], own.size, &known_[slots + slot * own.size]);
  }
  // Clocks stored so far: one for each completed fill, or read.
  int64_t UpdatesStored(const Carried& carried) const {
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
