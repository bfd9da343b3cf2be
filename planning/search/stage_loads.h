// The bytes of mixes of kinds of blocks on one stage, class by class: those of a mix are the sums
// of what its classes hold, and the most of what comes and goes in any of them. So classes may be
// looked at one after the other.
//
//   const StageLoads loads(costs, stage, {6, 2});
//   StageLoads::Load load = loads.base();
//   loads.Add(0, {5, 0, 1, 0}, &load);
//   loads.Add(1, {0, 0, 0, 2}, &load);
//   const double bytes = loads.Bytes(load);
#pragma once

#include <vector>

#include "planning/search/stage_costs.h"

namespace oneflow {

class StageLoads {
 public:
  struct Load {
    std::vector<double> held;  // bytes at each time, and in the update
    // Bytes that come and go, the most of any block: by chunk when a B begins, by chunk when it is
    // over, and at some other time.
    std::vector<double> moving;
  };

  // `blocks`: of the stage; where it has several chunks, as many as these have.
  StageLoads(const GroupCosts& costs, int stage, const ClassCounts& blocks);

  // What chunks without blocks hold.
  const Load& base() const { return base_; }
  // What nothing holds.
  Load Nothing() const;
  // Adds all blocks of a class: how many of them have each policy.
  void Add(int block_class, const std::vector<int>& counts, Load* load) const;
  // Adds the load of other classes.
  static void Add(const Load& more, Load* load);
  double Bytes(const Load& load) const;

 private:
  const std::vector<double>& HeldByBlock(int chunk, int kind) const {
    return held_[chunk * costs_.kinds() + kind];
  }
  int Slice(int chunk) const { return chunk * costs_.stages() + stage_; }
  void AddChunk(int chunk, int block_class, const std::vector<int>& counts, Load* load) const;

  const GroupCosts& costs_;
  const int stage_;
  std::vector<std::vector<int>> rooms_;    // [class][chunk]: blocks
  std::vector<std::vector<double>> held_;  // by a block of each kind on each chunk
  Load base_;
};

}  // namespace oneflow
