#include "planning/search/block_mix.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/recipe/forms.h"
#include "planning/search/draw_for_test.h"

namespace oneflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kPolicyCount = 4;

Linear Draw(double most, Dice* dice) { return {most * dice->Share(), most * dice->Share()}; }

StageCosts DrawStage(Dice* dice) {
  StageCosts stage;
  stage.spans = {Draw(1, dice), Draw(2, dice), Draw(.5, dice)};
  stage.kernels = stage.spans;
  stage.resident = Draw(20, dice), stage.sums = Draw(8, dice);
  stage.saved = Draw(6, dice), stage.kept = {0, .3 * stage.saved.block};
  stage.fit_saved = stage.saved, stage.fit_kept = stage.kept;
  stage.transients = {
      4 * dice->Share(), 4 * dice->Share(), 4 * dice->Share(), 2 * dice->Share(), 0, {}};
  return stage;
}

// A policy changes only the backward of a block, what is saved of it, and what comes and goes.
std::vector<ShortCosts> DrawCosts(Dice* dice) {
  std::vector<ShortCosts> costs(kPolicyCount);
  costs[0] = {.first = DrawStage(dice), .middle = DrawStage(dice), .last = DrawStage(dice)};
  costs[0].link = .2 * dice->Share();
  for (int p = 1; p < kPolicyCount; ++p) {
    costs[p] = costs[p - 1];
    for (StageCosts ShortCosts::*slice :
         {&ShortCosts::first, &ShortCosts::middle, &ShortCosts::last}) {
      StageCosts& stage = costs[p].*slice;
      stage.spans.backward.block += .8 * dice->Share();
      stage.kernels.backward = stage.spans.backward;
      stage.saved.block *= dice->Share();
      stage.fit_saved = stage.saved;
      stage.kept.block = stage.fit_kept.block = std::min(stage.kept.block, stage.saved.block);
      stage.transients.inner += dice->Share();
      stage.transients.head += dice->Share();
      stage.transients.any += dice->Share();
    }
  }
  return costs;
}

struct Case {
  std::string schedule = "1f1b";
  int stages = 1, chunks = 1;
  std::vector<int> slices;
  int64_t micro_batches = 8;
};

std::vector<int> ByStage(const Case& at) {
  std::vector<int> blocks(at.stages, 0);
  for (size_t i = 0; i < at.slices.size(); ++i) blocks[i % at.stages] += at.slices[i];
  return blocks;
}

GroupCosts Make(const Case& at, const std::vector<ShortCosts>& costs) {
  proto::Recipe group = MakeCandidate(MakeRecipe("--schedule=" + at.schedule));
  if (at.stages > 1)
    *group.mutable_mesh() = MakeRecipe("--mesh=pipe=" + std::to_string(at.stages)).mesh();
  group.set_micro_batches(at.micro_batches), group.set_chunks(at.chunks);
  PlanRequest given;
  given.recipe.set_batch(at.micro_batches);
  absl::StatusOr<GroupCosts> made = GroupCosts::Make(given, group, costs, at.slices);
  INFO(made.status().message());
  REQUIRE(made.ok());
  return *std::move(made);
}

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{{"1f1b", 1, 1, {5}},
                                                    {"1f1b", 3, 1, {4, 3, 3}},
                                                    {"1f1b", 4, 1, {2, 3, 1, 2}, 3},
                                                    {"gpipe", 2, 1, {3, 3}, 4},
                                                    {"zero_bubble", 3, 1, {3, 4, 2}},
                                                    {"interleaved", 2, 2, {2, 2, 2, 2}},
                                                    {"interleaved", 2, 2, {3, 2, 2, 1}},
                                                    {"interleaved", 3, 2, {2, 2, 2, 2, 2, 2}, 12},
                                                    {"interleaved", 2, 3, {1, 1, 1, 1, 1, 1}, 6}};
  return cases;
}

std::string Text(const Case& at) {
  std::string text = at.schedule + " of";
  for (const int n : at.slices) text += " " + std::to_string(n);
  return text;
}

// All counts of four policies that add up to `blocks`.
std::vector<PolicyCounts> ListCounts(int blocks) {
  std::vector<PolicyCounts> all;
  for (int a = 0; a <= blocks; ++a) {
    for (int b = 0; a + b <= blocks; ++b) {
      for (int c = 0; a + b + c <= blocks; ++c) all.push_back({a, b, c, blocks - a - b - c});
    }
  }
  return all;
}

// The least seconds of a stage, of all counts that fit; kNever where none does.
double FindLeast(const GroupCosts& costs, int stage, int blocks, double capacity) {
  double least = kNever;
  for (const PolicyCounts& counts : ListCounts(blocks)) {
    if (capacity > 0 && costs.Bytes(stage, counts) > capacity) continue;
    least = std::min(least, costs.Seconds(stage, counts));
  }
  return least;
}

// Between what the stages need at least and at most, or a little beyond; 0 now and then.
double DrawCapacity(const GroupCosts& costs, const std::vector<int>& blocks, Dice* dice) {
  if (dice->Chance(.1)) return 0;
  double least = kNever, most = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    for (const PolicyCounts& counts : ListCounts(blocks[s])) {
      least = std::min(least, costs.Bytes(s, counts));
      most = std::max(most, costs.Bytes(s, counts));
    }
  }
  return least + (1.2 * dice->Share() - .1) * (most - least);
}

TEST_CASE("counts: those of a stage take least of all that fit") {
  Dice dice(1);
  int none = 0, recomputed = 0;
  for (int i = 0; i < 20; ++i) {
    for (const Case& at : Cases()) {
      INFO(Text(at));
      const GroupCosts costs = Make(at, DrawCosts(&dice));
      const std::vector<int> blocks = ByStage(at);
      const double capacity = DrawCapacity(costs, blocks, &dice);
      for (int s = 0; s < at.stages; ++s) {
        INFO("stage " << s << ", " << capacity << " bytes");
        const std::optional<PolicyCounts> counts = ChooseCounts(costs, s, blocks[s], capacity);
        const double least = FindLeast(costs, s, blocks[s], capacity);
        REQUIRE(counts.has_value() == (least < kNever));
        if (!counts) ++none;
        if (!counts) continue;
        CHECK(std::accumulate(counts->begin(), counts->end(), 0) == blocks[s]);
        CHECK((capacity == 0 || costs.Bytes(s, *counts) <= capacity));
        CHECK(costs.Seconds(s, *counts) == Approx(least).epsilon(1e-12));
        if ((*counts)[0] < blocks[s]) ++recomputed;
      }
    }
  }
  CHECK(none >= 20);
  CHECK(recomputed >= 20);
}

TEST_CASE("counts: of those that take equally long, the first that need least") {
  Dice dice(2);
  std::vector<ShortCosts> costs = DrawCosts(&dice);
  for (int p = 0; p < kPolicyCount; ++p) {
    costs[p].last.spans = {{0, 1}, {0, p < 3 ? 2. : 4.}, {0, 0}};
    costs[p].last.saved = {0, 8. - 2 * p};
    costs[p].last.kept = {};
    costs[p].last.transients = {};
  }
  const GroupCosts all = Make({"1f1b", 1, 1, {4}}, costs);
  CHECK(ChooseCounts(all, 0, 4, 0) == PolicyCounts{0, 0, 4, 0});
  CHECK(ChooseCounts(all, 0, 0, 0) == PolicyCounts{0, 0, 0, 0});
  CHECK(ChooseCounts(all, 0, 4, 1e-9) == std::nullopt);
}

// The shortest that the longest of three stages can be, whoever has how many of the blocks.
double FindBalance(const GroupCosts& costs, int blocks, double capacity) {
  double shortest = kNever;
  for (int a = 1; a + 2 <= blocks; ++a) {
    for (int b = 1; a + b + 1 <= blocks; ++b) {
      const double longest =
          std::max({FindLeast(costs, 0, a, capacity), FindLeast(costs, 1, b, capacity),
                    FindLeast(costs, 2, blocks - a - b, capacity)});
      shortest = std::min(shortest, longest);
    }
  }
  return shortest;
}

TEST_CASE("balance: the longest stage is as short as it can be") {
  Dice dice(3);
  int none = 0;
  for (int i = 0; i < 60; ++i) {
    const int blocks = static_cast<int>(3 + dice.Below(8));
    const Case at{dice.One<std::string>({"1f1b", "zero_bubble"}), 3, 1, {blocks - 2, 1, 1}};
    const GroupCosts costs = Make(at, DrawCosts(&dice));
    const double capacity = DrawCapacity(costs, {blocks / 3, blocks / 3, blocks / 3}, &dice);
    INFO(at.schedule << ", " << blocks << " blocks, " << capacity << " bytes");
    const std::optional<std::vector<int>> balanced = BalanceBlocks(costs, blocks, capacity);
    const double shortest = FindBalance(costs, blocks, capacity);
    REQUIRE(balanced.has_value() == (shortest < kNever));
    if (!balanced) ++none;
    if (!balanced) continue;
    CHECK(std::accumulate(balanced->begin(), balanced->end(), 0) == blocks);
    double longest = 0;
    for (int s = 0; s < 3; ++s) {
      longest = std::max(longest, FindLeast(costs, s, (*balanced)[s], capacity));
    }
    CHECK(longest == Approx(shortest).epsilon(1e-12));
  }
  CHECK(none >= 3);
  CHECK(none <= 40);
}

TEST_CASE("mix: it fits, and a step takes what its counts say") {
  Dice dice(4);
  int found = 0;
  for (int i = 0; i < 10; ++i) {
    for (const Case& at : Cases()) {
      const bool fits_orders = dice.Chance(.7);
      const GroupCosts fitting = Make(at, DrawCosts(&dice));
      const GroupCosts costs = fits_orders ? fitting : fitting.WithLeastHeld();
      const std::vector<int> blocks = ByStage(at);
      const double capacity = DrawCapacity(costs, blocks, &dice);
      INFO(Text(at) << ", " << capacity << " bytes");
      const absl::StatusOr<std::optional<BlockMix>> mix = ChooseMix(costs, blocks, capacity);
      REQUIRE(mix.ok());
      if (!*mix) continue;
      ++found;
      const std::vector<PolicyCounts>& counts = (*mix)->counts;
      CHECK((*mix)->step_seconds == *costs.StepSeconds(counts));
      // Of orders that are fitted to these counts, a stage holds other bytes than of given ones.
      const GroupCosts fitted = costs.fits_orders() ? costs.FittedTo(counts) : costs;
      double most = 0;
      for (int s = 0; s < at.stages; ++s) {
        CHECK(std::accumulate(counts[s].begin(), counts[s].end(), 0) == blocks[s]);
        most = std::max(most, fitted.Bytes(s, counts[s]));
      }
      CHECK((*mix)->bytes == most);
      CHECK((capacity == 0 || most <= capacity));
    }
  }
  CHECK(found >= 20);
}

TEST_CASE("mix: no other counts of two stages make a step shorter") {
  Dice dice(5);
  for (int i = 0; i < 8; ++i) {
    const Case at{"1f1b", 2, 1, {3, 3}, 5};
    const GroupCosts costs = Make(at, DrawCosts(&dice));
    const double capacity = DrawCapacity(costs, {3, 3}, &dice);
    double least = kNever;
    for (const PolicyCounts& a : ListCounts(3)) {
      if (capacity > 0 && costs.Bytes(0, a) > capacity) continue;
      for (const PolicyCounts& b : ListCounts(3)) {
        if (capacity > 0 && costs.Bytes(1, b) > capacity) continue;
        least = std::min(least, *costs.StepSeconds({a, b}));
      }
    }
    const absl::StatusOr<std::optional<BlockMix>> mix = ChooseMix(costs, {3, 3}, capacity);
    REQUIRE(mix.ok());
    REQUIRE(mix->has_value() == (least < kNever));
    if (*mix) CHECK((*mix)->step_seconds == Approx(least).epsilon(1e-12));
  }
}

PolicyCounts DrawCounts(int blocks, Dice* dice) {
  PolicyCounts counts(kPolicyCount, 0);
  for (int i = 0; i < blocks; ++i) ++counts[dice->Below(kPolicyCount)];
  return counts;
}

TEST_CASE("chunks: their parts add up to the counts and fill the rooms") {
  CHECK(SplitOverChunks({1, 0, 2, 3}, {3, 3}) ==
        std::vector<PolicyCounts>{{0, 0, 1, 2}, {1, 0, 1, 1}});
  Dice dice(8);
  for (int i = 0; i < 500; ++i) {
    std::vector<int> rooms;
    for (int64_t c = 1 + dice.Below(4); c > 0; --c)
      rooms.push_back(static_cast<int>(dice.Below(5)));
    const PolicyCounts counts = DrawCounts(std::accumulate(rooms.begin(), rooms.end(), 0), &dice);
    const std::vector<PolicyCounts> parts = SplitOverChunks(counts, rooms);
    REQUIRE(parts.size() == rooms.size());
    PolicyCounts sum(kPolicyCount, 0);
    for (size_t c = 0; c < parts.size(); ++c) {
      CHECK(std::accumulate(parts[c].begin(), parts[c].end(), 0) == rooms[c]);
      for (int p = 0; p < kPolicyCount; ++p) {
        CHECK(parts[c][p] >= 0);
        sum[p] += parts[c][p];
      }
    }
    CHECK(sum == counts);
  }
}

// What a recipe says of a slice, by the comment of annotate_recompute.h: terms in turn take what
// they count, and the one without counts takes what remains.
PolicyCounts CountsOfSlice(const proto::Recompute& recompute, int slice, int blocks) {
  PolicyCounts counts(kPolicyCount, 0);
  int rest = 0, left = blocks;
  for (const proto::Recompute::Term& term : recompute.term()) {
    const int p = static_cast<int>(
        std::find(std::begin(kPolicies), std::end(kPolicies), term.policy()) - kPolicies);
    REQUIRE(p < kPolicyCount);
    if (term.counts().empty()) {
      rest = p;
      continue;
    }
    const int taken = std::min(left, term.counts(term.counts_size() == 1 ? 0 : slice));
    counts[p] += taken;
    left -= taken;
  }
  counts[rest] += left;
  return counts;
}

TEST_CASE("words: parsed back, each slice has as many blocks of each policy") {
  const auto words_of = [](const std::vector<PolicyCounts>& counts, const std::vector<int>& slices,
                           bool gathers = false) {
    return kRecomputeForm.print(MakeRecompute(counts, slices, gathers));
  };
  CHECK(words_of({{2, 0, 0, 0}, {1, 0, 0, 0}}, {2, 1}) == "none");
  CHECK(words_of({{0, 0, 0, 2}, {0, 0, 0, 1}}, {2, 1}) == "full");
  CHECK(words_of({{0, 1, 0, 2}, {0, 1, 0, 2}}, {3, 3}) == "full:2,attention:1");
  CHECK(words_of({{2, 0, 0, 0}, {1, 0, 0, 0}}, {2, 1}, /*gathers=*/true) == "none,gather");
  CHECK(words_of({{1, 0, 0, 1}, {1, 0, 0, 1}}, {2, 2}, /*gathers=*/true) == "full:1,gather");
  Dice dice(9);
  for (int i = 0; i < 500; ++i) {
    const int stages = static_cast<int>(1 + dice.Below(4)),
              chunks = static_cast<int>(1 + dice.Below(3));
    const int even = dice.Chance(.5) ? static_cast<int>(1 + dice.Below(4)) : 0;
    std::vector<int> slices;
    for (int n = stages * chunks; n > 0; --n) {
      slices.push_back(even > 0 ? even : static_cast<int>(dice.Below(5)));
    }
    std::vector<int> blocks(stages, 0);
    for (size_t n = 0; n < slices.size(); ++n) blocks[n % stages] += slices[n];
    std::vector<PolicyCounts> counts;
    for (const int n : blocks) counts.push_back(DrawCounts(n, &dice));
    if (dice.Chance(.3)) {  // all of them one policy
      const int64_t p = dice.Below(kPolicyCount);
      for (int s = 0; s < stages; ++s) {
        counts[s].assign(kPolicyCount, 0);
        counts[s][p] = blocks[s];
      }
    }
    const std::string words = words_of(counts, slices);
    INFO(words);
    const proto::Recompute parsed = MakeRecipe("--recompute=" + words).recompute();
    CHECK(kRecomputeForm.print(parsed) == words);
    for (int s = 0; s < stages; ++s) {
      std::vector<int> rooms;
      for (int c = 0; c < chunks; ++c) rooms.push_back(slices[c * stages + s]);
      const std::vector<PolicyCounts> parts = SplitOverChunks(counts[s], rooms);
      for (int c = 0; c < chunks; ++c) {
        CHECK(CountsOfSlice(parsed, c * stages + s, rooms[c]) == parts[c]);
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
