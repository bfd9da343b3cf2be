// The happens-before game over a program's net: the check that no byte has two owners at once. The
// game takes firings in one legal order. Every stream carries a clock of the firings that it knows
// to be complete. A write to bytes that another register had is refused unless the writing stream
// knows that the last accesses of that register are complete.
//
// Invariants:
//  1. Firings are taken in one legal order. If every pair of conflicting accesses is ordered by
//     happens-before in that order, all legal orders agree on them, so one order proves all.
//  2. A cell of cell_owner_ is the register that wrote its bytes last.
//  3. Two steps are enough, although the buffer that a step begins with may drift from step to
//     step, because nothing depends on it. A register gains and loses all its buffers together,
//     with two exceptions. Members of the same frames (frames.h) drift equally and share a frame
//     among themselves; any other register gains a byte of the frames only when all members have
//     lost all of theirs, and the other way round. And where a step fills each buffer once, nothing
//     drifts, so each buffer is gained and lost alone.
//
// The game is a value: a copy is a second game in the same state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/net/steady_state.h"
#include "oneflow_core/net/stream_clocks.h"
#include "oneflow_core/verify/owners.h"

namespace oneflow {

class HappensBefore {
 public:
  // At the initial marking of `steps` steps. The net must outlive the game and its copies.
  HappensBefore(const PlanNet& net, int64_t steps);

  const Marking& marking() const { return clocks_.marking(); }
  const StreamClocks& clocks() const { return clocks_; }
  // Takes the next firing of a stream. Requires that the marking lets it fire. FAILED_PRECONDITION
  // if an access is not ordered; it names the two registers.
  absl::Status Fire(int stream);

  // Takes `cycle`, which began at `from` with the streams `firings` and ended here, as often as it
  // may be taken. Returns false, and changes nothing, unless that is sound: see the .cc.
  bool SkipCycles(const HappensBefore& from, const std::vector<int>& firings, const Cycle& cycle);

  // True if `other` accepts every continuation that this game accepts. Requires the same marking.
  bool NoBetterThan(const HappensBefore& other) const;

 private:
  // State of an owner (owners.h).
  struct Held {
    int64_t first_valid_fill = 0;  // older contents were overwritten by others
    int evicted_by = -1;           // register
    bool owns = false;             // its bytes, all of them
  };
  // The side that has the bytes of frames: the members, or the conflicting registers. A stream is
  // synchronized once it knows that all accesses of the other side are complete.
  struct FrameSide {
    bool members = false;
    std::vector<bool> synchronized;  // by stream
    bool operator==(const FrameSide&) const = default;
  };
  using Reading = Owners::Reading;
  using Writing = Owners::Writing;

  absl::Status Read(int stream, int actor, const Reading& reading);
  absl::Status Write(int stream, int actor, const Writing& writing);
  absl::Status TakeBytes(int stream, int actor, const Writing& writing, int64_t fill,
                         int64_t buffer);
  absl::Status TakeFrames(int stream, int actor, int reg, int frames, bool as_member);
  absl::Status Evict(int stream, int actor, int evicted, int64_t buffer, int evictor);
  absl::Status NotOver(int actor, const Owners::Accessor& accessor, bool writes, int evicted,
                       int evictor) const;
  std::string Program() const;

  Held& held(const Location& location, int64_t buffer) {
    return held_[location.owner + buffer * location.owner_step];
  }
  const Held& held(const Location& location, int64_t buffer) const {
    return held_[location.owner + buffer * location.owner_step];
  }
  // The increments of all state by one cycle that ended here.
  struct Motion {
    std::vector<int32_t> firings;      // by stream
    std::vector<int32_t> known;        // by count of StreamClocks::known()
    std::vector<int32_t> over_after;   // by access
    std::vector<int64_t> first_valid;  // by owner
    std::vector<int64_t> turns;        // by frames
  };
  int64_t FillsSince(const HappensBefore& from, int reg) const;
  Motion MotionSince(const HappensBefore& from) const;
  void Skip(const Cycle& cycle, int64_t times, const Motion& motion);

  const PlanNet* net_;
  StreamClocks clocks_;
  std::shared_ptr<const Owners> owners_;  // of the net; copies share it
  std::vector<Held> held_;                // by owner
  std::vector<int32_t> over_after_;       // by access: firings of its stream up to and including it
  std::vector<int> cell_owner_;           // by cell: register; -1: nobody yet
  std::vector<FrameSide> frame_side_;     // by frames
};

}  // namespace oneflow
