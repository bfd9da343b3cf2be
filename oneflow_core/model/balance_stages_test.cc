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
  int block = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    for (int n = 0; n < slices[i]; ++n) cost[i % stages] += costs.blocks[block++];
  }
  cost.front() += costs.first;
  cost.back() += costs.last;
  return cost;
}

double Most(const std::vector<double>& costs) {
  return *std::max_element(costs.begin(), costs.end());
}

// The least cost of the costliest stage over all numbers of blocks of the slices from the i-th on.
double BruteForce(const BlockCosts& costs, int stages, Slices* slices, size_t i, int blocks) {
  if (i + 1 == slices->size()) {
    slices->back() = blocks;
    return Most(CostOfStages(costs, *slices, stages));
  }
  double least = 1e30;
  const int behind = static_cast<int>(slices->size() - i) - 1;
  for (int n = 1; n <= blocks - behind; ++n) {
    (*slices)[i] = n;
    least = std::min(least, BruteForce(costs, stages, slices, i + 1, blocks - n));
  }
  return least;
}

std::vector<double> Alike(int blocks, double cost = 1) { return std::vector<double>(blocks, cost); }

// Blocks that cost `a`, and each n-th `b`.
std::vector<double> EachNth(int blocks, int n, double a, double b) {
  std::vector<double> costs = Alike(blocks, a);
  for (int i = n - 1; i < blocks; i += n) costs[i] = b;
  return costs;
}

TEST_CASE("slices are equal, or the first and the last have fewer blocks") {
  CHECK(BalancedSlices({.blocks = Alike(5)}, 1) == Slices{5});
  CHECK(BalancedSlices({.blocks = Alike(3)}, 3) == Slices{1, 1, 1});
  CHECK(BalancedSlices({.blocks = Alike(10)}, 4) == Slices{2, 3, 3, 2});
  CHECK(BalancedSlices({.blocks = Alike(13)}, 4) == Slices{3, 3, 4, 3});
  CHECK(BalancedSlices({.blocks = Alike(8)}, 2, 2) == Slices{2, 2, 2, 2});
  // Llama 3.1 405B on 16 stages of 4 chunks: both ends have one block, all others two.
  Slices llama(64, 2);
  llama.front() = llama.back() = 1;
  CHECK(BalancedSlices({.blocks = Alike(126), .last = .65}, 16, 4) == llama);
}

TEST_CASE("a heavy head or embedding leaves its stage fewer blocks") {
  CHECK(BalancedSlices({.blocks = Alike(4), .last = 2}, 2) == Slices{3, 1});
  CHECK(BalancedSlices({.blocks = Alike(4), .first = 2}, 2) == Slices{1, 3});
  CHECK(BalancedSlices({.blocks = Alike(8), .last = 3}, 4) == Slices{2, 2, 3, 1});
  CHECK(BalancedSlices({.blocks = Alike(8), .last = 3}, 2, 2) == Slices{2, 2, 3, 1});
  // So heavy that it stands with one block, and the others share the rest.
  CHECK(BalancedSlices({.blocks = Alike(5), .last = 50}, 3) == Slices{2, 2, 1});
}

TEST_CASE("what a stage takes in all its chunks counts, not what a slice takes") {
  // Llama 3 70B: the head costs 1.1 blocks, beside 4 of its slice and 20 of its stage.
  CHECK(BalancedSlices({.blocks = Alike(80), .last = 1.1}, 4, 5) == Slices(20, 4));
  CHECK(BalancedSlices({.blocks = Alike(80), .last = 1.1}, 16) == Slices(16, 5));
  CHECK(BalancedSlices({.blocks = Alike(80), .last = 1.4}, 16) != Slices(16, 5));
}

TEST_CASE("where blocks differ, stages are divided by what blocks cost") {
  // The first block is dense: DeepSeek's.
  std::vector<double> heavy = Alike(8);
  heavy[0] = 4;
  CHECK(BalancedSlices({.blocks = heavy}, 2) == Slices{2, 6});
  // Windows of Gemma 3: each sixth block costs twice as much.
  CHECK(BalancedSlices({.blocks = EachNth(12, 6, 1, 2)}, 2) == Slices{6, 6});
  CHECK(BalancedSlices({.blocks = EachNth(12, 6, 1, 2)}, 4) == Slices{3, 3, 3, 3});
  CHECK(BalancedSlices({.blocks = EachNth(12, 4, 1, 5)}, 3) == Slices{4, 4, 4});
  CHECK(BalancedSlices({.blocks = EachNth(9, 3, 2, 12), .last = 6}, 3) == Slices{4, 4, 1});
  // A difference that is not worth it, and one that is.
  CHECK(BalancedSlices({.blocks = {1.02, 1, 1, 1}}, 2) == Slices{2, 2});
  CHECK(BalancedSlices({.blocks = {3, 1, 1, 1}}, 2) == Slices{1, 3});
  const BlockCosts first{.blocks = {6, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  CHECK(Most(CostOfStages(first, BalancedSlices(first, 2, 2), 2)) == 8);
}

TEST_CASE("no division has a shorter longest stage, but where equal slices are nearly as good") {
  std::mt19937 random(5);
  const auto draw = [&](int most) { return static_cast<int>(random() % most); };
  int equal = 0, missed = 0;
  constexpr int kDraws = 600;
  for (int i = 0; i < kDraws; ++i) {
    const int stages = 1 + draw(4), chunks = 1 + draw(3), blocks = stages * chunks + draw(9);
    if (stages * chunks > 8) continue;
    BlockCosts costs{.blocks = Alike(blocks, 1 + draw(9))};
    const bool alike = draw(2) == 0;
    if (!alike) costs.blocks = EachNth(blocks, 1 + draw(4), 1 + draw(9), 1 + draw(9));
    costs.first = draw(8);
    costs.last = draw(20);
    const Slices slices = BalancedSlices(costs, stages, chunks);
    REQUIRE(static_cast<int>(slices.size()) == stages * chunks);
    CHECK(std::accumulate(slices.begin(), slices.end(), 0) == blocks);
    const auto [least, most] = std::minmax_element(slices.begin(), slices.end());
    CHECK(*least >= 1);
    const double longest = Most(CostOfStages(costs, slices, stages));
    Slices tried(slices.size());
    const double best = BruteForce(costs, stages, &tried, 0, blocks);
    const bool may_differ = *most - *least <= 1;
    equal += may_differ ? 1 : 0;
    const double allowed = (may_differ ? best / (1 - kWorthMoving) : best) * (1 + 1e-9);
    if (alike || chunks == 1) {
      CHECK(longest <= allowed);
    } else if (longest > allowed) {
      ++missed;
      CHECK(longest <= best * 1.15);
    }
  }
  CHECK(equal > 50);
  CHECK(equal < kDraws - 50);
  CHECK(missed <= 2);
}

}  // namespace
}  // namespace oneflow
