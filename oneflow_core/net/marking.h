// A marking of a program's net: the position of each stream in its order, and so the number of
// firings of each actor. It implements the firing rule of docs/firing.md for the planner and the
// proofs. It shares no code with the runtime's actors, which it checks. It has no notion of time.
//
//   Marking m(net);
//   while (!m.done(s) && !m.FindBlocker(m.next(s))) m.Fire(s);
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Returns n / per. Most rates are 1, and a division takes longer than all the rest of a firing.
inline int64_t Quotient(int64_t n, int64_t per) { return per == 1 ? n : n / per; }
// True if firing number n is the last of a fill, or of a read, of `per` firings.
inline bool Completes(int64_t n, int64_t per) { return per == 1 || (n + 1) % per == 0; }

// A position in the order of a stream.
struct StreamPosition {
  int64_t step = 0;
  size_t run = 0;
  int64_t repeat = 0;  // of the run, [0, run.repeat)
  size_t index = 0;    // of the run's actors
  bool operator==(const StreamPosition&) const = default;
};

// The condition that a firing waits for.
struct Wait {
  enum Kind : uint8_t {
    kFill,     // of `reg`, by `actor`
    kSlot,     // of `reg`, held by `actor`
    kOrder,    // `actor` is issued before it on its device
    kPartner,  // its partner's stream stands at `actor`
  };
  int actor = -1;  // that must fire first; -1: nothing is waited for
  Kind kind = kFill;
  int reg = -1;  // of a fill or a slot
  explicit operator bool() const { return actor >= 0; }
};

// The way in which devices meet in a game.
enum class Meeting : uint8_t {
  kAlone,    // not at all: each stage alone, its sends and receives like any other actors
  kFree,     // a send and its receive are fired together, as soon as both may
  kInOrder,  // so are they, and each device fires its exchanges in its order of issue
};

// Invariant: fired(a) is the number of firings of a before the positions of the streams.
class Marking {
 public:
  // The initial marking, of a game over `steps` steps. The net must outlive it.
  explicit Marking(const PlanNet& net, Meeting meeting, int64_t steps = 1);

  bool done(int stream) const { return positions_[stream].step == steps_; }
  // The actor that a stream fires next. Requires !done(stream).
  int next(int stream) const {
    const StreamPosition& p = positions_[stream];
    return net_->streams[stream].runs[p.run].actors[p.index];
  }
  const StreamPosition& position(int stream) const { return positions_[stream]; }
  int64_t fired(int actor) const { return fired_[actor]; }
  // Fills of a register since the start; and reads of one of its readers that are over.
  int64_t fills(const NetRegister& r) const { return Quotient(fired_[r.writer], r.fires_per_fill); }
  int64_t reads(const NetReader& reader) const {
    return Quotient(fired_[reader.actor], reader.fires_per_read);
  }
  // The condition that the next firing of `actor` waits for, and of its partner if they fire
  // together. The order of its own stream does not count.
  Wait FindBlocker(int actor) const;
  // The actor that is fired with `actor`; -1: none.
  int Partner(int actor) const {
    return meeting_ == Meeting::kAlone ? -1 : net_->actors[actor].partner;
  }
  // Calls fn(writer, per_fill, reader, per_read) for every edge over which one may have to wait for
  // the other, reader -1 for a register that none reads. All other edges are filled and read in
  // turn, by each firing, in a stream's order.
  template <typename Fn>
  void ForWaits(Fn fn) const {
    for (size_t a = 0; a < fired_.size(); ++a) {
      for (int i = edges_->first_source[a]; i < edges_->first_source[a + 1]; ++i) {
        const Source& s = edges_->sources[i];
        fn(s.writer, s.per_fill, static_cast<int>(a), s.per_read);
      }
    }
    for (const auto& [writer, per_fill] : edges_->unread) fn(writer, per_fill, -1, int64_t{1});
  }
  // Takes the next firing of a stream, and with it that of a partner. Requires that nothing blocks
  // it.
  void Fire(int stream);
  // Takes `repeats` repeats of the present run of a stream, or of an order of issue, at once.
  // Requires that they are left.
  void SkipRepeats(int stream, int64_t repeats);
  void SkipIssueRepeats(int issue, int64_t repeats) { issue_positions_[issue].repeat += repeats; }
  // Positions in the orders of issue; empty unless devices meet in order.
  const std::vector<StreamPosition>& issue_positions() const { return issue_positions_; }

 private:
  // The edges over which an actor may have to wait, copied out of the plan's messages, because a
  // game asks for them at every firing.
  struct Source {
    int writer = -1, reg = 0;
    int64_t per_fill = 1, per_read = 1, initial_fills = 0;
  };
  struct Credit {
    int reader = -1, reg = 0;
    int64_t per_fill = 1, per_read = 1, initial_fills = 0;
  };
  struct Edges {
    std::vector<Source> sources;
    std::vector<Credit> credits;
    std::vector<int> first_source, first_credit;  // by actor, and the end
    std::vector<std::pair<int, int64_t>> unread;  // (writer, firings a fill)
  };
  static std::shared_ptr<const Edges> MakeEdges(const PlanNet& net);
  Wait MissingToken(int actor) const;
  Wait EarlierIssue(int actor) const;
  void FireOne(int stream);

  const PlanNet* net_;
  Meeting meeting_;
  std::shared_ptr<const Edges> edges_;  // of the net; copies share it
  int64_t steps_;
  std::vector<StreamPosition> positions_;        // by stream
  std::vector<StreamPosition> issue_positions_;  // by order of issue
  std::vector<int64_t> fired_;                   // by actor
};

// Returns the streams that wait for each other. In a marking in which nothing can fire, every
// stream that is not done waits for one actor. So a walk along these waits from `start` ends in a
// cycle, or at a stream whose step is over. The result is the cycle, or else the walk. Requires
// that `start` is not done.
std::vector<int> WaitsFrom(int start, const PlanNet& net, const Marking& marking);

// The streams that may be able to fire: all at first; later those that a firing may have freed.
// Every game takes them in this order, so every game is deterministic. A game that fires one repeat
// of a run at a turn keeps all streams abreast, and reaches a steady state.
class ReadyStreams {
 public:
  explicit ReadyStreams(const PlanNet& net);
  bool empty() const { return ready_.empty(); }
  int Pop();
  // Wakes `stream`, of which something has fired, and the streams that share a register with it.
  void Wake(int stream);

 private:
  const PlanNet* net_;
  std::deque<int> ready_;
  std::vector<bool> queued_;
};

}  // namespace oneflow
