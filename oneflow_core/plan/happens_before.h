// The happens-before game over a program's net: firings are taken in one legal order, every stream
// carries a clock of what it knows to be complete, and a write to bytes that another register had
// is refused unless the last accesses of that register are known to be over.
//
// Invariants:
//  1. Firings are taken in one legal order. If every pair of conflicting accesses is ordered by
//     happens-before in it, all legal orders agree on them, so one order proves all.
//  2. owner_[stage], and in_frame_[frames][place] for members of frames, map disjoint byte
//     intervals to the register that wrote them last.
//  3. Two steps are enough, though the place that a step begins with may drift from step to step,
//     for nothing depends on it: a register takes and loses its bytes whole (all places), except
//     that members of the same frames (frames.h), which drift alike, part a frame among themselves.
//     Others take a byte of frames only when all members have lost all of theirs, and so back.
//
// A value: a copy is a second game at the same place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/plan/frames.h"
#include "oneflow_core/plan/steady_state.h"
#include "oneflow_core/plan/stream_clocks.h"

namespace oneflow {

class HappensBefore {
 public:
  // At the initial marking of `steps` steps. All three must outlive the game and its copies.
  HappensBefore(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                int64_t steps);

  const Marking& marking() const { return clocks_.marking(); }
  const StreamClocks& clocks() const { return clocks_; }
  // Takes the next firing of a stream. Requires that the marking lets it fire. FAILED_PRECONDITION
  // names the two registers where an access is not ordered.
  absl::Status Fire(int stream);

  // Takes `cycle`, which began at `from` with the streams `firings` and ended here, as often as it
  // may be taken. False, and nothing changes, unless that is sound: see the .cc.
  bool SkipCycles(const HappensBefore& from, const std::vector<int>& firings, const Cycle& cycle);

 private:
  // An access that must be over before another register may take the bytes.
  struct Access {
    int32_t count = 0;  // firings of its stream up to and including it; 0: none yet
    int stream = 0;
    AxisSet along = 0;
    int actor = 0;
  };
  // Of a holder: a register, or one place of a member of frames.
  struct Owned {
    Access last_write;
    std::vector<Access> last_read;  // for each reader
    int64_t first_valid_fill = 0;   // older contents were overwritten by others
    bool owns = false;              // its bytes, all of them
    int evicted_by = -1;            // register
  };
  struct Interval {
    int64_t end = 0;
    int reg = 0;
    bool operator==(const Interval&) const = default;
  };
  using Owners = std::map<int64_t, Interval>;  // by begin
  // Who has the bytes of frames: members or intruders. A stream is settled once it has seen that
  // all of the other side are over.
  struct Tenure {
    bool members = false;
    std::vector<bool> settled;  // by stream
    bool operator==(const Tenure&) const = default;
  };
  // What an actor reads and writes, out of the plan's messages: a game asks often.
  struct Reading {
    int reg = 0, reader = 0;  // the reader's place among the register's
    int64_t per_read = 1, initial_fills = 0;
  };
  struct Writing {
    int reg = 0;
    int64_t per_fill = 1;
    bool has_bytes = false;
  };
  // What does not change. Copies of the game share it.
  struct Holders {
    explicit Holders(const PlanNet& net);
    int count(int reg) const { return first[reg + 1] - first[reg]; }

    std::vector<Frames> frames;
    std::vector<int> first;                  // by register: its first holder; and the end
    std::vector<int> member_of;              // by register: frames; -1: none
    std::vector<std::vector<int>> intrudes;  // by register: frames
    std::vector<Reading> readings;
    std::vector<Writing> writings;
    std::vector<int> first_reading, first_writing;  // by actor, and the end
  };

  void Prepare(const NetRegister& r, Owned* state);
  absl::Status Read(int stream, int actor, const Reading& reading);
  absl::Status Write(int stream, int actor, const Writing& writing);
  absl::Status TakeBytes(int stream, int actor, int reg, int64_t fill);
  absl::Status TakeFrames(int stream, int actor, int reg, int frames, bool as_member);
  absl::Status TakeInterval(int stream, int actor, int reg, int64_t place, int64_t begin,
                            int64_t end, Owners* owners);
  absl::Status Evict(int stream, int actor, int loser, int64_t place, int winner);
  absl::Status CheckOver(int stream, int actor, const Access& access, std::string_view verb,
                         int loser, int winner) const;
  std::string Program() const;

  // As StreamClocks::ForCounts, the counts of accesses included.
  template <typename Self, typename Fn>
  static void ForCounts(Self& self, Fn fn);
  // Calls fn(holder, register), the places of a member in order of age.
  template <typename Fn>
  void ForHolders(Fn fn) const;
  int64_t PlaceOf(int reg, int64_t fill) const;
  int64_t FillsBetween(const HappensBefore& to, int reg) const;
  // Whether `to` differs from this in nothing but counts and the turn of frames; by how many fills
  // first_valid_fill of each holder moved between them.
  bool SameButCounts(const HappensBefore& to, std::vector<int64_t>* fills) const;
  bool SameFrames(const HappensBefore& to) const;
  void TurnFrames(size_t frames, int64_t turns);

  const PlanNet* net_;
  const AxisSets* axes_;
  StreamClocks clocks_;
  std::shared_ptr<const Holders> holders_;
  std::vector<Owned> state_;                   // by holder
  std::vector<Owners> owner_;                  // by stage
  std::vector<std::vector<Owners>> in_frame_;  // by frames and place; bytes from the frame's begin
  std::vector<Tenure> tenure_;                 // by frames
};

}  // namespace oneflow
