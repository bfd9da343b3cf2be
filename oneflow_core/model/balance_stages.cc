#include "oneflow_core/model/balance_stages.h"

#include <glog/logging.h>

#include <algorithm>
#include <tuple>

namespace oneflow {
namespace {

std::vector<double> SliceCosts(const BlockCosts& costs, const std::vector<int>& blocks) {
  std::vector<double> slices(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) slices[i] = blocks[i] * costs.block;
  slices.front() += costs.first;
  slices.back() += costs.last;
  return slices;
}

std::vector<double> StageSums(const BlockCosts& costs, const std::vector<int>& blocks, int stages) {
  const std::vector<double> slices = SliceCosts(costs, blocks);
  std::vector<double> sums(stages, 0);
  for (size_t i = 0; i < slices.size(); ++i) sums[i % stages] += slices[i];
  return sums;
}

double Longest(const BlockCosts& costs, const std::vector<int>& blocks, int stages) {
  const std::vector<double> sums = StageSums(costs, blocks, stages);
  return *std::max_element(sums.begin(), sums.end());
}

// Gives block after block to the stage that costs least. As blocks are equal, no other division has
// a shorter longest stage, or a smaller sum of squares.
std::vector<int> Fill(const BlockCosts& costs, int stages, int chunks) {
  const int slices = stages * chunks;
  std::vector<int> blocks(slices, 1);
  for (int b = slices; b < costs.blocks; ++b) {
    const std::vector<double> by_slice = SliceCosts(costs, blocks);
    const std::vector<double> by_stage = StageSums(costs, blocks, stages);
    const auto rank = [&](int i) {
      return std::tuple(by_stage[i % stages], by_slice[i], i == slices - 1, -i);
    };
    int least = 0;
    for (int i = 1; i < slices; ++i) {
      if (rank(i) < rank(least)) least = i;
    }
    ++blocks[least];
  }
  return blocks;
}

}  // namespace

std::vector<int> BalancedSlices(const BlockCosts& costs, int stages, int chunks) {
  CHECK(stages >= 1 && chunks >= 1 && costs.blocks >= stages * chunks)
      << costs.blocks << " blocks, " << stages << " stages of " << chunks;
  std::vector<int> equal = Fill({.blocks = costs.blocks}, stages, chunks);
  std::vector<int> best = Fill(costs, stages, chunks);
  const double most = Longest(costs, equal, stages) * (1 - kWorthMoving);
  return Longest(costs, best, stages) < most ? best : equal;
}

}  // namespace oneflow
