// Least costs of chains, trees and small dense networks against brute force; bounds where they are
// too large to be solved; and that equal layers are processed once.
#include "compiler/sbp/choice_network.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "compiler/sbp/brute_force.h"

namespace oneflow {
namespace {

std::shared_ptr<const CostTable> DrawTable(const ChoiceNetwork& network,
                                           const std::vector<int>& variables,
                                           std::mt19937* random) {
  CostTable table;
  size_t cells = 1;
  for (const int v : variables) {
    table.sizes.push_back(network.domain_size(v));
    cells *= network.domain_size(v);
  }
  for (size_t i = 0; i < cells; ++i) {
    table.costs.push_back((*random)() % 12 == 0 ? kForbidden
                                                : static_cast<Cost>((*random)() % 100));
  }
  return std::make_shared<const CostTable>(std::move(table));
}

// Of `variables` variables, with `terms` tables over up to three of them each.
ChoiceNetwork Draw(int variables, int terms, std::mt19937* random) {
  ChoiceNetwork network;
  for (int v = 0; v < variables; ++v) network.AddVariable(1 + static_cast<int>((*random)() % 3));
  network.AddTerm({}, std::make_shared<const CostTable>(CostTable{{}, {7}}));
  for (int t = 0; t < terms; ++t) {
    std::set<int> over;
    for (int i = 0; i < 3; ++i) over.insert(static_cast<int>((*random)() % variables));
    const std::vector<int> chosen(over.begin(), over.end());
    network.AddTerm(chosen, DrawTable(network, chosen, random));
  }
  return network;
}

TEST_CASE("choice network: small networks of any form cost what brute force finds") {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const ChoiceNetwork network = Draw(9, 1 + static_cast<int>(random() % 14), &random);
    const Choices choices = Solve(network);
    CHECK(choices.proved());
    CHECK(choices.cost == BruteForce(network));
    CHECK(choices.cost == network.Evaluate(choices.assignment));
  }
}

TEST_CASE(
    "choice network: where tables are too large the bound holds, and assignments are no worse") {
  std::mt19937 random(2);
  int proved = 0;
  for (int i = 0; i < 100; ++i) {
    const ChoiceNetwork network = Draw(9, 20, &random);
    const Choices choices = Solve(network, /*max_cells=*/9);
    const Cost least = BruteForce(network);
    CHECK(choices.bound <= least);
    CHECK(choices.cost >= least);
    CHECK(choices.cost == network.Evaluate(choices.assignment));
    proved += choices.proved() ? 1 : 0;
  }
  CHECK(proved < 100);
}

TEST_CASE("choice network: rounds give the best of eliminations with more and more cells") {
  std::mt19937 random(6);
  int unproved = 0;
  for (int i = 0; i < 100; ++i) {
    const ChoiceNetwork network = Draw(9, 20, &random);
    Choices best = Eliminate(network, 4);
    for (int64_t cells = 16; cells <= 64 && !best.proved(); cells *= 4) {
      Choices next = Eliminate(network, cells);
      const Cost bound = std::max(best.bound, next.bound);
      if (next.cost < best.cost) best = std::move(next);
      best.bound = bound;
    }
    const Choices rounds = Eliminate(network, 4, /*rounds=*/3);
    CHECK(rounds.assignment == best.assignment);
    CHECK(rounds.cost == best.cost);
    CHECK(rounds.bound == best.bound);
    unproved += best.proved() ? 0 : 1;
  }
  CHECK(unproved > 0);
  CHECK(unproved < 100);
}

TEST_CASE("choice network: a long chain of like links") {
  std::mt19937 random(3);
  ChoiceNetwork network;
  for (int v = 0; v < 5000; ++v) network.AddVariable(4);
  const auto link = DrawTable(network, {0, 1}, &random);
  for (int v = 1; v < 5000; ++v) network.AddTerm({v - 1, v}, link);
  // By the textbook's recursion, from front to back.
  std::vector<Cost> least(4, 0);
  for (int v = 1; v < 5000; ++v) {
    std::vector<Cost> next(4, kForbidden);
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < 4; ++b) {
        next[b] = std::min(next[b], AddCosts(least[a], link->costs[4 * a + b]));
      }
    }
    least = next;
  }
  const Choices choices = Solve(network);
  CHECK(choices.proved());
  CHECK(choices.cost == *std::min_element(least.begin(), least.end()));
}

}  // namespace
}  // namespace oneflow
