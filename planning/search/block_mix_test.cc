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
std::vector<ShortCosts> DrawClass(Dice* dice) {
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

// Of each kind.
std::vector<ShortCosts> DrawCosts(Dice* dice, int classes = 1) {
  std::vector<ShortCosts> costs = DrawClass(dice);
  for (int c = 1; c < classes; ++c) {
    for (ShortCosts& more : DrawClass(dice)) costs.push_back(std::move(more));
  }
  return costs;
}

struct Case {
  std::string schedule = "1f1b";
  int stages = 1, chunks = 1;
  std::vector<int> slices;
  int64_t micro_batches = 8;
  std::vector<int> classes = {};  // of blocks; empty: one

  int CountClasses() const {
    return classes.empty() ? 1 : *std::max_element(classes.begin(), classes.end()) + 1;
  }
  std::vector<ClassCounts> Slices() const {
    std::vector<int> alike(std::accumulate(slices.begin(), slices.end(), 0), 0);
    return oneflow::CountClasses(classes.empty() ? alike : classes, slices);
  }
};

std::vector<ClassCounts> ByStage(const GroupCosts& costs) {
  std::vector<ClassCounts> blocks;
  for (int s = 0; s < costs.stages(); ++s) blocks.push_back(costs.BlocksOfStage(s));
  return blocks;
}

GroupCosts Make(const Case& at, const std::vector<ShortCosts>& costs) {
  proto::Recipe group = MakeCandidate(MakeRecipe("--schedule=" + at.schedule));
  if (at.stages > 1)
    *group.mutable_mesh() = MakeRecipe("--mesh=pipe=" + std::to_string(at.stages)).mesh();
  group.set_micro_batches(at.micro_batches), group.set_chunks(at.chunks);
  PlanRequest given;
  given.recipe.set_batch(at.micro_batches);
  absl::StatusOr<GroupCosts> made = GroupCosts::Make(given, group, costs, at.Slices());
  INFO(made.status().message());
  REQUIRE(made.ok());
  return *std::move(made);
}

const std::vector<Case>& Cases() {
  static const auto& cases =
      *new std::vector<Case>{{"1f1b", 1, 1, {5}},
                             {"1f1b", 3, 1, {4, 3, 3}},
                             {"1f1b", 4, 1, {2, 3, 1, 2}, 3},
                             {"gpipe", 2, 1, {3, 3}, 4},
                             {"zero_bubble", 3, 1, {3, 4, 2}},
                             {"interleaved", 2, 2, {2, 2, 2, 2}},
                             {"interleaved", 2, 2, {3, 2, 2, 1}},
                             {"interleaved", 3, 2, {2, 2, 2, 2, 2, 2}, 12},
                             {"interleaved", 2, 3, {1, 1, 1, 1, 1, 1}, 6},
                             {"1f1b", 1, 1, {5}, 8, {0, 0, 1, 0, 0}},
                             {"1f1b", 1, 1, {4}, 1, {0, 1, 2, 1}},
                             {"1f1b", 2, 1, {4, 3}, 8, {0, 1, 1, 1, 1, 1, 1}},
                             {"zero_bubble", 2, 1, {3, 3}, 8, {0, 1, 0, 1, 0, 1}},
                             {"interleaved", 2, 2, {2, 2, 1, 2}, 4, {0, 0, 1, 0, 0, 1, 0}}};
  return cases;
}

std::string Text(const Case& at) {
  std::string text = at.schedule + " of";
  for (const int n : at.slices) text += " " + std::to_string(n);
  return text;
}

// All counts of four policies that add up to these blocks of each class.
std::vector<KindCounts> ListCounts(const ClassCounts& blocks) {
  std::vector<KindCounts> all = {{}};
  for (const int n : blocks) {
    std::vector<KindCounts> longer;
    for (const KindCounts& counts : all) {
      for (int a = 0; a <= n; ++a) {
        for (int b = 0; a + b <= n; ++b) {
          for (int c = 0; a + b + c <= n; ++c) {
            longer.push_back(counts);
            for (const int more : {a, b, c, n - a - b - c}) longer.back().push_back(more);
          }
        }
      }
    }
    all = std::move(longer);
  }
  return all;
}

// The least seconds of a stage, of all counts that fit; kNever where none does.
double FindLeast(const GroupCosts& costs, int stage, const ClassCounts& blocks, double capacity) {
  double least = kNever;
  for (const KindCounts& counts : ListCounts(blocks)) {
    if (capacity > 0 && costs.Bytes(stage, counts) > capacity) continue;
    least = std::min(least, costs.Seconds(stage, counts));
  }
  return least;
}

// Between what the stages need at least and at most, or a little beyond; 0 now and then.
double DrawCapacity(const GroupCosts& costs, const std::vector<ClassCounts>& blocks, Dice* dice) {
  if (dice->Chance(.1)) return 0;
  double least = kNever, most = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    for (const KindCounts& counts : ListCounts(blocks[s])) {
      least = std::min(least, costs.Bytes(s, counts));
      most = std::max(most, costs.Bytes(s, counts));
    }
  }
  return least + (1.2 * dice->Share() - .1) * (most - least);
}

ClassCounts CountByClass(const GroupCosts& costs, const KindCounts& counts) {
  ClassCounts blocks(costs.classes(), 0);
  for (size_t k = 0; k < counts.size(); ++k) blocks[k / kPolicyCount] += counts[k];
  return blocks;
}

TEST_CASE("counts: those of a stage take least of all that fit") {
  Dice dice(1);
  int none = 0, recomputed = 0;
  for (int i = 0; i < 20; ++i) {
    for (const Case& at : Cases()) {
      INFO(Text(at));
      const GroupCosts costs = Make(at, DrawCosts(&dice, at.CountClasses()));
      const std::vector<ClassCounts> blocks = ByStage(costs);
      const double capacity = DrawCapacity(costs, blocks, &dice);
      for (int s = 0; s < at.stages; ++s) {
        INFO("stage " << s << ", " << capacity << " bytes");
        const std::optional<KindCounts> counts = ChooseCounts(costs, s, blocks[s], capacity);
        const double least = FindLeast(costs, s, blocks[s], capacity);
        REQUIRE(counts.has_value() == (least < kNever));
        if (!counts) ++none;
        if (!counts) continue;
        CHECK(CountByClass(costs, *counts) == blocks[s]);
        CHECK((capacity == 0 || costs.Bytes(s, *counts) <= capacity));
        CHECK(costs.Seconds(s, *counts) == Approx(least).epsilon(1e-12));
        if (*counts != costs.WithPolicy(blocks[s], 0)) ++recomputed;
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
  CHECK(ChooseCounts(all, 0, {4}, 0) == KindCounts{0, 0, 4, 0});
  CHECK(ChooseCounts(all, 0, {0}, 0) == KindCounts{0, 0, 0, 0});
  CHECK(ChooseCounts(all, 0, {4}, 1e-9) == std::nullopt);
}

// The seconds of the longest stage.
double FindLongest(const GroupCosts& costs, const std::vector<int>& classes,
                   const std::vector<int>& layers, double capacity) {
  const std::vector<ClassCounts> blocks = CountClasses(classes, layers);
  double longest = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    longest = std::max(longest, FindLeast(costs, s, blocks[s], capacity));
  }
  return longest;
}

// The shortest that the longest of three stages can be, whoever has how many of the blocks.
double FindBalance(const GroupCosts& costs, const std::vector<int>& classes, double capacity) {
  const int blocks = static_cast<int>(classes.size());
  double shortest = kNever;
  for (int a = 1; a + 2 <= blocks; ++a) {
    for (int b = 1; a + b + 1 <= blocks; ++b) {
      shortest = std::min(shortest, FindLongest(costs, classes, {a, b, blocks - a - b}, capacity));
    }
  }
  return shortest;
}

// So that a stage takes longer with a block more: embedding and head are the same whichever class
// the blocks are of.
void CopyFixed(const ShortCosts& from, ShortCosts* to) {
  for (StageCosts ShortCosts::*slice :
       {&ShortCosts::first, &ShortCosts::middle, &ShortCosts::last}) {
    for (Linear LinearTasks::*task :
         {&LinearTasks::forward, &LinearTasks::backward, &LinearTasks::weights}) {
      ((to->*slice).spans.*task).fixed = ((from.*slice).spans.*task).fixed;
    }
    for (Linear StageCosts::*part :
         {&StageCosts::resident, &StageCosts::sums, &StageCosts::saved, &StageCosts::kept}) {
      (to->*slice.*part).fixed = (from.*slice.*part).fixed;
    }
  }
}

TEST_CASE("balance: the longest stage is as short as it can be") {
  Dice dice(3);
  int none = 0;
  for (int i = 0; i < 60; ++i) {
    const int blocks = static_cast<int>(3 + dice.Below(i % 2 == 0 ? 8 : 5));
    std::vector<int> classes(blocks, 0);
    for (int b = 2; i % 2 != 0 && b < blocks; b += 3) classes[b] = 1;
    const Case at{
        dice.One<std::string>({"1f1b", "zero_bubble"}), 3, 1, {blocks - 2, 1, 1}, 8, classes};
    std::vector<ShortCosts> drawn = DrawCosts(&dice, at.CountClasses());
    for (size_t kind = kPolicyCount; kind < drawn.size(); ++kind) {
      CopyFixed(drawn[kind % kPolicyCount], &drawn[kind]);
    }
    const GroupCosts costs = Make(at, drawn);
    const int third = blocks / 3;
    const double capacity =
        DrawCapacity(costs, std::vector<ClassCounts>(3, CountClasses(classes, {third})[0]), &dice);
    INFO(at.schedule << ", " << blocks << " blocks, " << capacity << " bytes");
    const std::optional<std::vector<int>> balanced = BalanceBlocks(costs, classes, capacity);
    const double shortest = FindBalance(costs, classes, capacity);
    REQUIRE(balanced.has_value() == (shortest < kNever));
    if (!balanced) ++none;
    if (!balanced) continue;
    CHECK(std::accumulate(balanced->begin(), balanced->end(), 0) == blocks);
    CHECK(FindLongest(costs, classes, *balanced, capacity) == Approx(shortest).epsilon(1e-12));
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
      const GroupCosts fitting = Make(at, DrawCosts(&dice, at.CountClasses()));
      const GroupCosts costs = fits_orders ? fitting : fitting.WithLeastHeld();
      const std::vector<ClassCounts> blocks = ByStage(costs);
      const double capacity = DrawCapacity(costs, blocks, &dice);
      INFO(Text(at) << ", " << capacity << " bytes");
      const absl::StatusOr<std::optional<BlockMix>> mix = ChooseMix(costs, blocks, capacity);
      REQUIRE(mix.ok());
      if (!*mix) continue;
      ++found;
      const std::vector<KindCounts>& counts = (*mix)->counts;
      CHECK((*mix)->step_seconds == *costs.StepSeconds(counts));
      // Of orders that are fitted to these counts, a stage holds other bytes than of given ones.
      const GroupCosts fitted = costs.fits_orders() ? costs.FittedTo(counts) : costs;
      double most = 0;
      for (int s = 0; s < at.stages; ++s) {
        CHECK(CountByClass(costs, counts[s]) == blocks[s]);
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
    const GroupCosts costs = Make(at, DrawCosts(&dice, at.CountClasses()));
    const double capacity = DrawCapacity(costs, {{3}, {3}}, &dice);
    double least = kNever;
    for (const KindCounts& a : ListCounts({3})) {
      if (capacity > 0 && costs.Bytes(0, a) > capacity) continue;
      for (const KindCounts& b : ListCounts({3})) {
        if (capacity > 0 && costs.Bytes(1, b) > capacity) continue;
        least = std::min(least, *costs.StepSeconds({a, b}));
      }
    }
    const absl::StatusOr<std::optional<BlockMix>> mix = ChooseMix(costs, {{3}, {3}}, capacity);
    REQUIRE(mix.ok());
    REQUIRE(mix->has_value() == (least < kNever));
    if (*mix) CHECK((*mix)->step_seconds == Approx(least).epsilon(1e-12));
  }
}

KindCounts DrawCounts(int blocks, Dice* dice) {
  KindCounts counts(kPolicyCount, 0);
  for (int i = 0; i < blocks; ++i) ++counts[dice->Below(kPolicyCount)];
  return counts;
}

TEST_CASE("chunks: their parts add up to the counts and fill the rooms") {
  CHECK(SplitOverChunks({1, 0, 2, 3}, {3, 3}) ==
        std::vector<KindCounts>{{0, 0, 1, 2}, {1, 0, 1, 1}});
  Dice dice(8);
  for (int i = 0; i < 500; ++i) {
    std::vector<int> rooms;
    for (int64_t c = 1 + dice.Below(4); c > 0; --c)
      rooms.push_back(static_cast<int>(dice.Below(5)));
    const KindCounts counts = DrawCounts(std::accumulate(rooms.begin(), rooms.end(), 0), &dice);
    const std::vector<KindCounts> parts = SplitOverChunks(counts, rooms);
    REQUIRE(parts.size() == rooms.size());
    KindCounts sum(kPolicyCount, 0);
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
// they count, of their class if they name one, and those without counts take what remains.
KindCounts CountsOfSlice(const proto::Recompute& recompute, int slice, const ClassCounts& blocks) {
  KindCounts counts;
  for (size_t c = 0; c < blocks.size(); ++c) {
    std::vector<int> of_class(kPolicyCount, 0);
    int rest = 0, left = blocks[c];
    for (const proto::Recompute::Term& term : recompute.term()) {
      if (!term.blocks().empty() && term.blocks() != std::string(1, static_cast<char>('a' + c))) {
        continue;
      }
      const int p = static_cast<int>(
          std::find(std::begin(kPolicies), std::end(kPolicies), term.policy()) - kPolicies);
      REQUIRE(p < kPolicyCount);
      if (term.counts().empty()) {
        rest = p;
        continue;
      }
      const int taken = std::min(left, term.counts(term.counts_size() == 1 ? 0 : slice));
      of_class[p] += taken;
      left -= taken;
    }
    of_class[rest] += left;
    counts.insert(counts.end(), of_class.begin(), of_class.end());
  }
  return counts;
}

TEST_CASE("words: parsed back, each slice has as many blocks of each policy") {
  const auto words_of = [](const std::vector<KindCounts>& counts,
                           const std::vector<ClassCounts>& slices, bool gathers = false) {
    return kRecomputeForm.print(MakeRecompute(counts, slices, gathers));
  };
  CHECK(words_of({{2, 0, 0, 0}, {1, 0, 0, 0}}, {{2}, {1}}) == "none");
  CHECK(words_of({{0, 0, 0, 2}, {0, 0, 0, 1}}, {{2}, {1}}) == "full");
  CHECK(words_of({{0, 1, 0, 2}, {0, 1, 0, 2}}, {{3}, {3}}) == "full:2,attention:1");
  CHECK(words_of({{2, 0, 0, 0}, {1, 0, 0, 0}}, {{2}, {1}}, /*gathers=*/true) == "none,gather");
  CHECK(words_of({{1, 0, 0, 1}, {1, 0, 0, 1}}, {{2}, {2}}, /*gathers=*/true) == "full:1,gather");
  CHECK(words_of({{0, 0, 0, 2, 0, 0, 0, 1}}, {{2, 1}}) == "full");
  CHECK(words_of({{2, 0, 0, 0, 0, 0, 0, 1}}, {{2, 1}}) == "full@b");
  CHECK(words_of({{1, 0, 0, 1, 0, 1, 0, 0}, {2, 0, 0, 0, 0, 2, 0, 0}}, {{2, 1}, {2, 2}}) ==
        "full@a:1/0,attention@b");
  Dice dice(9);
  for (int i = 0; i < 500; ++i) {
    const int stages = static_cast<int>(1 + dice.Below(4)),
              chunks = static_cast<int>(1 + dice.Below(3)),
              classes = static_cast<int>(1 + dice.Below(3));
    const int even = dice.Chance(.5) ? static_cast<int>(1 + dice.Below(4)) : 0;
    std::vector<ClassCounts> slices(stages * chunks, ClassCounts(classes, even));
    for (ClassCounts& slice : slices) {
      for (int& n : slice) n = even > 0 ? even : static_cast<int>(dice.Below(5));
    }
    const int same = dice.Chance(.3) ? static_cast<int>(dice.Below(kPolicyCount)) : -1;
    std::vector<KindCounts> counts(stages), drawn(slices.size());
    for (int s = 0; s < stages; ++s) {
      for (int c = 0; c < classes; ++c) {
        std::vector<int> rooms;
        for (int j = 0; j < chunks; ++j) rooms.push_back(slices[j * stages + s][c]);
        const int blocks = std::accumulate(rooms.begin(), rooms.end(), 0);
        std::vector<int> of_class = DrawCounts(blocks, &dice);
        if (same >= 0) {
          of_class.assign(kPolicyCount, 0);
          of_class[same] = blocks;
        }
        counts[s].insert(counts[s].end(), of_class.begin(), of_class.end());
        const std::vector<std::vector<int>> parts = SplitOverChunks(of_class, rooms);
        for (int j = 0; j < chunks; ++j) {
          KindCounts& slice = drawn[j * stages + s];
          slice.insert(slice.end(), parts[j].begin(), parts[j].end());
        }
      }
    }
    const std::string words = words_of(counts, slices);
    INFO(words);
    const proto::Recompute parsed = MakeRecipe("--recompute=" + words).recompute();
    CHECK(kRecomputeForm.print(parsed) == words);
    for (size_t slice = 0; slice < slices.size(); ++slice) {
      CHECK(CountsOfSlice(parsed, static_cast<int>(slice), slices[slice]) == drawn[slice]);
    }
  }
}

}  // namespace
}  // namespace oneflow
