// The happens-before game over a program's net: firings are taken in one legal order, every stream
// carries a clock of what it knows to be complete, and a write to bytes that another register had
// is refused unless the last accesses of that register are known to be over.
//
// Invariants:
//  1. Firings are taken in one legal order. If every pair of conflicting accesses is ordered by
//     happens-before in it, all legal orders agree on them, so one order proves all.
//  2. A cell of owner_ says which register wrote its bytes last.
//  3. Two steps are enough, though the place that a step begins with may drift from step to step,
//     for nothing depends on it: a register takes and loses its bytes whole (all places), except
//     that members of the same frames (frames.h), which drift alike, part a frame among themselves.
//     Others take a byte of frames only when all members have lost all of theirs, and so back.
//     Where a step fills each place once, nothing drifts, and each is taken and lost by itself.
//
// A value: a copy is a second game at the same place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/net/steady_state.h"
#include "oneflow_core/net/stream_clocks.h"
#include "oneflow_core/verify/holders.h"

namespace oneflow {

class HappensBefore {
 public:
  // At the initial marking of `steps` steps. The net must outlive the game and its copies.
  HappensBefore(const PlanNet& net, int64_t steps);

  const Marking& marking() const { return clocks_.marking(); }
  const StreamClocks& clocks() const { return clocks_; }
  // Takes the next firing of a stream. Requires that the marking lets it fire. FAILED_PRECONDITION
  // names the two registers where an access is not ordered.
  absl::Status Fire(int stream);

  // Takes `cycle`, which began at `from` with the streams `firings` and ended here, as often as it
  // may be taken. False, and nothing changes, unless that is sound: see the .cc.
  bool SkipCycles(const HappensBefore& from, const std::vector<int>& firings, const Cycle& cycle);

  // Of two games at the same marking: what this one lets pass from here on, the other does, too.
  bool NoBetterThan(const HappensBefore& other) const;

 private:
  // Of a holder (holders.h).
  struct Held {
    int64_t first_valid_fill = 0;  // older contents were overwritten by others
    int evicted_by = -1;           // register
    bool owns = false;             // its bytes, all of them
  };
  // Who has the bytes of frames: members or intruders. A stream is settled once it has seen that
  // all of the other side are over.
  struct Tenure {
    bool members = false;
    std::vector<bool> settled;  // by stream
    bool operator==(const Tenure&) const = default;
  };
  using Reading = Holders::Reading;
  using Writing = Holders::Writing;

  absl::Status Read(int stream, int actor, const Reading& reading);
  absl::Status Write(int stream, int actor, const Writing& writing);
  absl::Status TakeBytes(int stream, int actor, const Writing& writing, int64_t fill,
                         int64_t place);
  absl::Status TakeFrames(int stream, int actor, int reg, int frames, bool as_member);
  absl::Status Evict(int stream, int actor, int loser, int64_t place, int winner);
  absl::Status NotOver(int actor, const Holders::Toucher& toucher, bool writes, int loser,
                       int winner) const;
  std::string Program() const;

  Held& held(const Spot& spot, int64_t place) {
    return held_[spot.holder + place * spot.holder_step];
  }
  const Held& held(const Spot& spot, int64_t place) const {
    return held_[spot.holder + place * spot.holder_step];
  }
  // What a cycle that ended here moves each time it is taken.
  struct Motion {
    std::vector<int32_t> firings;      // by stream
    std::vector<int32_t> known;        // by count of StreamClocks::known()
    std::vector<int32_t> over_after;   // by access
    std::vector<int64_t> first_valid;  // by holder
    std::vector<int64_t> turns;        // by frames
  };
  int64_t FillsSince(const HappensBefore& from, int reg) const;
  Motion MotionSince(const HappensBefore& from) const;
  void Skip(const Cycle& cycle, int64_t times, const Motion& motion);

  const PlanNet* net_;
  StreamClocks clocks_;
  std::shared_ptr<const Holders> holders_;  // of the net; copies share it
  std::vector<Held> held_;                  // by holder
  std::vector<int32_t> over_after_;  // by access: firings of its stream up to and including it
  std::vector<int> owner_;           // by cell: register; -1: nobody yet
  std::vector<Tenure> tenure_;       // by frames
};

}  // namespace oneflow
