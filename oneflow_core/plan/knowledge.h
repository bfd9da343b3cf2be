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

// Which streams each stage keeps counts of.
class Interests {
 public:
  explicit Interests(const PlanNet& net);
  const std::vector<int>& of(int stage) const { return streams_[stage]; }
  // Place of a stream among those of a stage. Requires that the stage keeps it.
  int IndexOf(int stage, int stream) const;
  // Places of the streams that both stages keep: (place in `from`, place in `to`).
  const std::vector<std::pair<int, int>>& Common(int from, int to) const;

 private:
  std::vector<std::vector<int>> streams_;  // by stage, ascending
  mutable std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> common_;
};

class Clock {
 public:
  // Nothing is known. `streams` as many as the stage keeps.
  Clock(int axes, int streams)
      : axes_(axes), streams_(streams), known_((size_t{1} << axes) * streams, 0) {}

  int32_t known(AxisSet along, int index) const { return known_[along * streams_ + index]; }
  // On this device the first `count` firings are complete.
  void Complete(int index, int32_t count) { known_[index] = count; }
  // Learns what all peers along `along` knew when they had `other`.
  void Merge(const Clock& other, AxisSet along, const std::vector<std::pair<int, int>>& common);

  // All counts; count i is of the stage's stream number i % streams().
  std::vector<int32_t>& counts() { return known_; }
  const std::vector<int32_t>& counts() const { return known_; }
  int streams() const { return streams_; }

 private:
  int axes_, streams_;
  std::vector<int32_t> known_;  // [axis set][stream of the stage]
};

}  // namespace oneflow
