// The happens-before game over a program's net: firings are taken in one legal order, every stream
// carries a clock of what it knows to be complete, and a write to bytes that another register had
// is refused unless the last accesses of that register are known to be over.
//
// Invariants:
//  1. Firings are taken in one legal order. If every pair of conflicting accesses is ordered by
//     happens-before in it, all legal orders agree on them, so one order proves all.
//  2. owner_[stage] maps disjoint byte intervals to the register that wrote them last.
//  3. Registers take and lose their bytes whole (all slots): which slot a step starts with may
//     drift from step to step, whole registers repeat with the step, so two steps are enough.
//
// A value: a copy is a second game at the same place.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/plan/steady_state.h"
#include "oneflow_core/plan/stream_clocks.h"

namespace oneflow {

class HappensBefore {
 public:
  // At the initial marking of `steps` steps. All three must outlive the game and its copies.
  HappensBefore(const PlanNet& net, const AxisSets& axes, const Interests& interests,
                int64_t steps);

  const Marking& marking() const { return clocks_.marking(); }
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
  struct Owned {
    Access last_write;
    std::vector<Access> last_read;  // for each reader
    int64_t first_valid_fill = 0;   // older contents were overwritten by others
    int evicted_by = -1;            // register
  };
  struct Interval {
    int64_t end = 0;
    int reg = 0;
    bool operator==(const Interval&) const = default;
  };

  void Prepare(const NetRegister& r, Owned* state);
  absl::Status Read(int stream, int actor, int input);
  absl::Status Write(int stream, int actor, int reg);
  absl::Status TakeBytes(int stream, int actor, int reg, int64_t fill);
  absl::Status Evict(int stream, int actor, int loser, int winner);
  absl::Status CheckOver(int stream, int actor, const Access& access, std::string_view verb,
                         int loser, int winner) const;
  std::string Program() const;

  // As StreamClocks::ForCounts, the counts of accesses included.
  template <typename Self, typename Fn>
  static void ForCounts(Self& self, Fn fn);
  // Whether `to` differs from this in nothing but counts; the fills of each register between them.
  bool SameButCounts(const HappensBefore& to, std::vector<int64_t>* fills) const;

  const PlanNet* net_;
  const AxisSets* axes_;
  StreamClocks clocks_;
  std::vector<Owned> state_;                        // by register
  std::vector<std::map<int64_t, Interval>> owner_;  // by stage
};

}  // namespace oneflow
