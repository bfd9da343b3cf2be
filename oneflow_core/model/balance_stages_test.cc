#include "oneflow_core/model/balance_stages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

namespace oneflow {
namespace {

using Slices = std::vector<int>;

std::vector<double> CostOfStages(const BlockCosts& costs, const Slices& slices, int stages) {
  std::vector<double> cost(stages, 0);
  for (size_t i = 0; i < slices.size(); ++i) cost[i % stages] += slices[i] * costs.block;
  cost.front() += costs.first;
  cost.back() += costs.last;
  return cost;
}

double Most(const std::vector<double>& costs) {
  return *std::max_element(costs.begin(), costs.end());
}

// The least cost of the costliest stage over all numbers of blocks of stages s and after.
double BruteForce(const BlockCosts& costs, int stages, int chunks, int s, int blocks) {
  if (s == stages) return blocks == 0 ? 0 : 1e30;
  double least = 1e30;
  const double extra = (s == 0 ? costs.first : 0) + (s == stages - 1 ? costs.last : 0);
  for (int n = chunks; n <= blocks; ++n) {
    const double after = BruteForce(costs, stages, chunks, s + 1, blocks - n);
    least = std::min(least, std::max(n * costs.block + extra, after));
  }
  return least;
}

TEST_CASE("slices are equal, or the first and the last have fewer blocks") {
  CHECK(BalancedSlices({.blocks = 5}, 1) == Slices{5});
  CHECK(BalancedSlices({.blocks = 3}, 3) == Slices{1, 1, 1});
  CHECK(BalancedSlices({.blocks = 10}, 4) == Slices{2, 3, 3, 2});
  CHECK(BalancedSlices({.blocks = 13}, 4) == Slices{3, 3, 4, 3});
  CHECK(BalancedSlices({.blocks = 8}, 2, 2) == Slices{2, 2, 2, 2});
  // Llama 3.1 405B on 16 stages of 4 chunks: both ends have one block, all others two.
  Slices llama(64, 2);
  llama.front() = llama.back() = 1;
  CHECK(BalancedSlices({.blocks = 126, .last = .65}, 16, 4) == llama);
}

TEST_CASE("a heavy head or embedding leaves its stage fewer blocks") {
  CHECK(BalancedSlices({.blocks = 4, .last = 2}, 2) == Slices{3, 1});
  CHECK(BalancedSlices({.blocks = 4, .first = 2}, 2) == Slices{1, 3});
  CHECK(BalancedSlices({.blocks = 8, .last = 3}, 4) == Slices{2, 2, 3, 1});
  CHECK(BalancedSlices({.blocks = 8, .last = 3}, 2, 2) == Slices{2, 2, 3, 1});
  // So heavy that it stands with one block, and the others share the rest.
  CHECK(BalancedSlices({.blocks = 5, .last = 50}, 3) == Slices{2, 2, 1});
}

TEST_CASE("what a stage takes in all its chunks counts, not what a slice takes") {
  // Llama 3 70B: the head costs 1.1 blocks, beside 4 of its slice and 20 of its stage.
  CHECK(BalancedSlices({.blocks = 80, .last = 1.1}, 4, 5) == Slices(20, 4));
  CHECK(BalancedSlices({.blocks = 80, .last = 1.1}, 16) == Slices(16, 5));
  CHECK(BalancedSlices({.blocks = 80, .last = 1.4}, 16) != Slices(16, 5));
}

TEST_CASE("no division has a shorter longest stage, but where equal slices are nearly as good") {
  std::mt19937 random(5);
  int equal = 0;
  for (int i = 0; i < 300; ++i) {
    const int stages = 1 + static_cast<int>(random() % 4),
              chunks = 1 + static_cast<int>(random() % 3);
    BlockCosts costs{.blocks = stages * chunks + static_cast<int>(random() % 9)};
    costs.block = 1 + static_cast<double>(random() % 9);
    costs.first = static_cast<double>(random() % 8);
    costs.last = static_cast<double>(random() % 20);
    const Slices slices = BalancedSlices(costs, stages, chunks);
    REQUIRE(static_cast<int>(slices.size()) == stages * chunks);
    CHECK(std::accumulate(slices.begin(), slices.end(), 0) == costs.blocks);
    const auto [least, most] = std::minmax_element(slices.begin(), slices.end());
    CHECK(*least >= 1);
    const double longest = Most(CostOfStages(costs, slices, stages));
    const double best = BruteForce(costs, stages, chunks, 0, costs.blocks);
    const bool may_differ = *most - *least <= 1;
    equal += may_differ ? 1 : 0;
    CHECK(longest <= (may_differ ? best / (1 - kWorthMoving) : best) * (1 + 1e-9));
  }
  CHECK(equal > 50);
  CHECK(equal < 280);
}

}  // namespace
}  // namespace oneflow
