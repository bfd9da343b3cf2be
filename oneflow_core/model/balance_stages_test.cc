#include "oneflow_core/model/balance_stages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace oneflow {
namespace {

using Stages = std::vector<int>;

std::vector<double> CostOfStages(const BlockCosts& costs, const Stages& stage_of, int stages) {
  std::vector<double> cost(stages, 0);
  for (size_t b = 0; b < stage_of.size(); ++b) cost[stage_of[b]] += costs.blocks[b];
  cost.front() += costs.first;
  cost.back() += costs.last;
  return cost;
}

double Most(const std::vector<double>& costs) {
  return *std::max_element(costs.begin(), costs.end());
}

// Blocks of each stage.
std::vector<int> Counts(const Stages& stage_of, int stages) {
  std::vector<int> counts(stages, 0);
  for (const int s : stage_of) ++counts[s];
  return counts;
}

// The least maximum over all splits of blocks [begin, end) in stages s and after.
double BruteForce(const BlockCosts& costs, int stages, int s, size_t begin) {
  if (s == stages) return begin == costs.blocks.size() ? 0 : 1e30;
  double least = 1e30;
  double cost = (s == 0 ? costs.first : 0) + (s == stages - 1 ? costs.last : 0);
  for (size_t end = begin + 1; end <= costs.blocks.size(); ++end) {
    cost += costs.blocks[end - 1];
    least = std::min(least, std::max(cost, BruteForce(costs, stages, s + 1, end)));
  }
  return least;
}

TEST_CASE("like blocks: as equal as they go, the first stages one more") {
  CHECK(BalancedStages({.blocks = {1, 1, 1, 1, 1}}, 2) == Stages{0, 0, 0, 1, 1});
  CHECK(BalancedStages({.blocks = {1, 1, 1}}, 3) == Stages{0, 1, 2});
  CHECK(BalancedStages({.blocks = {1, 1}}, 1) == Stages{0, 0});
}

TEST_CASE("a heavy head or embedding leaves its stage fewer blocks") {
  CHECK(BalancedStages({.blocks = {1, 1, 1, 1}, .last = 2}, 2) == Stages{0, 0, 0, 1});
  CHECK(BalancedStages({.blocks = {1, 1, 1, 1}, .first = 2}, 2) == Stages{0, 1, 1, 1});
  // So heavy that it stands with one block, and the others share the rest.
  CHECK(BalancedStages({.blocks = {1, 1, 1, 1, 1}, .last = 50}, 3) == Stages{0, 0, 1, 1, 2});
}

TEST_CASE("105 layers on 35 stages: three each while the head costs less than a block") {
  const BlockCosts light{.blocks = std::vector<double>(105, 1.0), .last = 0.2};
  CHECK(Counts(BalancedStages(light, 35), 35) == std::vector<int>(35, 3));
  // A head of two blocks: the last stage has fewer of its own, others one more.
  const BlockCosts heavy{.blocks = std::vector<double>(105, 1.0), .last = 2};
  const Stages stage_of = BalancedStages(heavy, 35);
  CHECK(Most(CostOfStages(heavy, stage_of, 35)) == 4);
  CHECK(Counts(stage_of, 35).back() < 3);
}

TEST_CASE("no split has a cheaper costliest stage") {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    BlockCosts costs;
    const int stages = 1 + static_cast<int>(random() % 5);
    for (int b = stages + static_cast<int>(random() % 6); b > 0; --b) {
      costs.blocks.push_back(1 + static_cast<double>(random() % 9));
    }
    costs.first = static_cast<double>(random() % 8);
    costs.last = static_cast<double>(random() % 20);
    const Stages stage_of = BalancedStages(costs, stages);
    REQUIRE(std::is_sorted(stage_of.begin(), stage_of.end()));
    const std::vector<int> counts = Counts(stage_of, stages);
    CHECK(*std::min_element(counts.begin(), counts.end()) >= 1);
    CHECK(Most(CostOfStages(costs, stage_of, stages)) ==
          Approx(BruteForce(costs, stages, 0, 0)).epsilon(1e-8));
  }
}

}  // namespace
}  // namespace oneflow
