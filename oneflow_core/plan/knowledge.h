// What the devices of a stage know to be complete: vector clocks, for the memory proof.
//
// One clock a stream stands for all devices of the stage, because peers along mesh axes behave
// alike: known(β, t) = n says that on every device reached from this one by moving along the axes
// of the set β, the first n firings of stream t are complete.
//
// A clock keeps counts of the streams that touch registers of its stage, and of a stage from which
// it reads more than once a step (so that what comes back from here tells that stage all that it
// knew when it sent), no others: knowledge that is dropped can only make a proof fail, never pass.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/plan/plan_net.h"

namespace oneflow {

// A set of mesh axes, as bits; only axes that edges of the program go along are numbered.
using AxisSet = uint32_t;

class AxisSets {
 public:
  // Fails when the program communicates along too many axes.
  static absl::StatusOr<AxisSets> Of(const PlanNet& net);
  AxisSet SetOf(const std::vector<int>& along) const;
  int axes() const { return static_cast<int>(bit_.size()); }

 private:
  std::map<int, int> bit_;  // mesh axis -> bit
};

// Places of the same streams in the clocks of two stages, (theirs, ours); null: the stages are one.
using CommonStreams = const std::vector<std::pair<int, int>>*;

// Which streams each stage keeps counts of.
class Interests {
 public:
  explicit Interests(const PlanNet& net);
  const std::vector<int>& of(int stage) const { return streams_[stage]; }
  // Place of a stream among those of a stage. Requires that the stage keeps it.
  int IndexOf(int stage, int stream) const;
  // Of the streams that both stages keep.
  CommonStreams Common(int from, int to) const;

 private:
  std::vector<std::vector<int>> streams_;  // by stage, ascending
  mutable std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> common_;
};

// The shape of a clock: a block of counts, [axis set][stream that the stage keeps].
struct ClockShape {
  int axes = 0, streams = 0;

  int size() const { return (1 << axes) * streams; }
  int at(AxisSet along, int index) const { return static_cast<int>(along) * streams + index; }
};

// `to` learns what all peers along `along` knew when they had `from`. Both are clocks of as many
// axes; `theirs` and `ours` are their shapes. Each knows at least as much of fewer devices as of
// more, and `to` goes on to; where one does not, some of it may not be learned.
void Learn(const int32_t* from, const ClockShape& theirs, AxisSet along, CommonStreams common,
           int32_t* to, const ClockShape& ours);

}  // namespace oneflow
