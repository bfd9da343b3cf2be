#include "planning/search/simplest.h"

#include <catch2/catch.hpp>

#include "planning/search/plan_words.h"
#include "planning/search/result_text.h"

namespace oneflow {
namespace {

using Catch::Contains;

FoundPlan Plan(const std::string& flags, double seconds, int64_t gib = 40) {
  FoundPlan plan{.step_seconds = seconds, .bytes = gib << 30};
  plan.candidate = MakeCandidate(MakeRecipe(flags));
  return plan;
}

constexpr int64_t kCapacity = int64_t{80} << 30;

TEST_CASE("simplest: each trait decides before those after it") {
  // The simpler one first. The second is better by all that comes later.
  const std::pair<FoundPlan, FoundPlan> cases[] = {
      {Plan("--mesh=pipe=8 --schedule=zero_bubble", 1, 79), Plan("--mesh=data=4,tensor=2", 1)},
      {Plan("--mesh=pipe=8 --stage_layers=1,2", 1),
       Plan("--mesh=pipe=2 --schedule=zero_bubble", 1)},
      {Plan("--mesh=pipe=8 --schedule=interleaved --chunks=2", 1),
       Plan("--mesh=pipe=2 --schedule=zero_bubble", 1)},
      {Plan("--mesh=pipe=8 --recompute=full:3,attention", 1),
       Plan("--mesh=pipe=2 --stage_layers=3,5", 1)},
      {Plan("--mesh=pipe=8 --recompute=full", 1),
       Plan("--mesh=pipe=2 --recompute=full:3,attention", 1)},
      {Plan("--mesh=pipe=8", 1), Plan("--mesh=pipe=2 --recompute=full", 1)},
      {Plan("--mesh=pipe=4", 1, 79), Plan("--mesh=pipe=8", 1)},
      {Plan("--mesh=data=8 --offload=states", 1), Plan("--mesh=data=8", 1, 79)},
      {Plan("--mesh=data=8", 1), Plan("--mesh=data=8 --offload=states", 1)}};
  for (const auto& [a, b] : cases) {
    INFO(CandidateFlags(a.candidate) << " or " << CandidateFlags(b.candidate));
    CHECK(IsSimpler(a, b, kCapacity));
    CHECK_FALSE(IsSimpler(b, a, kCapacity));
  }
  const FoundPlan full = Plan("--mesh=data=8", 1, 79), spare = Plan("--mesh=data=8", 1);
  CHECK(IsSimpler(spare, full, kCapacity));
  CHECK_FALSE(IsSimpler(spare, full, 0));  // without a limit none is full
  CHECK_FALSE(IsSimpler(Plan("--mesh=data=8x4 --stage_layers=4,4", 1), spare, 0));
  CHECK_FALSE(IsSimpler(spare, Plan("--mesh=data=8x4 --stage_layers=4,4", 1), 0));
}

TEST_CASE("simplest: within the spread only, and of equals the fastest") {
  const FoundPlan fast = Plan("--mesh=data=8,context=2,tensor=2", 3.848);
  const FoundPlan plain = Plan("--mesh=data=32", 3.848 * (1 + .99 * kOrderSpread));
  const FoundPlan same = Plan("--mesh=data=32 --shard=weights", 3.848 * (1 + .999 * kOrderSpread));
  const FoundPlan slow = Plan("--mesh=data=32", 3.848 * (1 + 1.01 * kOrderSpread));
  CHECK(FindSimplest({fast, plain, same, slow}, kCapacity) == 1);
  CHECK(CountClass({fast, plain, same, slow}) == 3);
  CHECK(FindSimplest({fast, slow}, kCapacity) == 0);
  CHECK(FindSimplest({plain, fast}, kCapacity) == 0);
}

TEST_CASE("simplest: the best of each group stays, and the simplest of the class") {
  std::vector<FoundPlan> all;
  CHECK(AddFound(Plan("--mesh=data=32 --recompute=full", 10), 1, &all));
  CHECK(AddFound(Plan("--mesh=data=32 --recompute=full:3,attention", 9.95), 1, &all));
  CHECK_FALSE(AddFound(Plan("--mesh=data=32 --recompute=full:4,attention", 9.96), 1, &all));
  CHECK_FALSE(AddFound(Plan("--mesh=pipe=2,data=16", 9.97), 1, &all));
  CHECK(all.size() == 3);
  CHECK_FALSE(AddFound(Plan("--mesh=pipe=4,data=8", 11), 1, &all));
  CHECK(all.size() == 3);
  std::vector<FoundPlan> fastest = all;
  TrimFound(1, /*simplest=*/false, kCapacity, &fastest);
  CHECK(fastest.size() == 1);
  TrimFound(1, /*simplest=*/true, kCapacity, &all);
  REQUIRE(all.size() == 2);
  CHECK(all[0].step_seconds == 9.95);
  CHECK(all[1].step_seconds == 10);
}

TEST_CASE("simplest: it is shown first, and the fastest says what it would win") {
  SearchResult result;
  result.found = {Plan("--mesh=data=8,context=2,tensor=2", 3.80, 73), Plan("--mesh=pipe=32", 3.82),
                  Plan("--mesh=data=32 --shard=weights", 3.85, 47)};
  result.bound_seconds = 3.8 / 1.01;
  result.complete = true;
  const Report report = DescribeResult({.model = "m", .capacity = kCapacity}, result);
  const size_t first = report.text.find("\n1  3.850 s"), second = report.text.find("\n2  3.800 s");
  CHECK(first < second);
  CHECK(second < report.text.find("\n3  3.820 s"));
  CHECK_THAT(report.text,
             Contains("1 is the simplest of 3 plans within 2.5 %") &&
                 Contains("the fastest is 2: 1.3 % faster, 73.00 GiB instead of 47.00 GiB\n") &&
                 Contains("predicted: step 3.850 s") &&
                 Contains("more than 1.0 % faster than 2, by the simulator's times"));
  CHECK(report.json["simplest"] == 2);
  CHECK(report.json["class"]["plans"] == 3);
  CHECK(report.json["plans"][0]["step_seconds"] == 3.80);

  result.found = {result.found[2], Plan("--mesh=pipe=32", 4)};
  const Report alone = DescribeResult({.model = "m", .capacity = kCapacity}, result);
  CHECK_THAT(alone.text, !Contains("simplest") && Contains("% faster, by the simulator's times"));
  CHECK(alone.json["simplest"] == 0);
}

// A plan of `flags` with parts of its step, in seconds.
FoundPlan PlanWithParts(const std::string& flags, double compute, double exchange, double waits,
                        int64_t gib) {
  FoundPlan plan = Plan(flags, compute + exchange + waits, gib);
  plan.exposed_exchange = exchange;
  plan.bubble = waits / plan.step_seconds;
  return plan;
}

TEST_CASE("plan words: what differs, what it saves and costs") {
  const FoundPlan first = PlanWithParts("--mesh=data=32 --shard=weights", 9, 1, 0, 40);
  const auto words = [&](const std::string& flags, double compute, double exchange, double waits,
                         int64_t gib) {
    return DifferenceText(PlanWithParts(flags, compute, exchange, waits, gib), first, "1");
  };
  CHECK(words("--mesh=data=8,tensor=4 --shard=weights", 9.6, 0.5, 0, 60) ==
        "data=8,tensor=4 instead of data=32: a quarter of the exchange over data, more compute "
        "(+6.0 % of a step), half the exposed exchange (-5.0 % of a step); 1.0 % longer, 60.00 GiB "
        "instead of 40.00 GiB; other bits than 1");
  CHECK(words("--mesh=pipe=4,data=8 --schedule=zero_bubble", 9, 0.01, 0.49, 40) ==
        "pipe=4,data=8 instead of data=32, shard=none instead of weights, schedule=zero_bubble "
        "instead of 1f1b: hardly any exposed exchange (-9.9 % of a step), waiting for other stages "
        "(+4.9 % of a step); 5.0 % faster; other bits than 1");
  CHECK(words("--mesh=data=32 --shard=weights --recompute=full", 12, 2, 0, 20) ==
        "recompute=full instead of none: more compute (+30.0 % of a step), twice the exposed "
        "exchange (+10.0 % of a step); 40.0 % longer, 20.00 GiB instead of 40.00 GiB; the bits of "
        "1");
  CHECK(words("--mesh=data=16,tensor=2 --shard=weights --sequence_parallel --micro_batches=2", 9, 1,
              0, 40) ==
        "data=16,tensor=2 instead of data=32, micro_batches=2 instead of 1: as fast; other bits "
        "than 1");
  CHECK(words("--mesh=data=4x8 --shard=weights", 9.001, 1, 0, 40) ==
        "mesh=data=4x8 instead of data=32: as fast; other bits than 1");
  CHECK(words("--mesh=data=32 --shard=weights", 9, 1, 0, 40) == "the same plan as 1");
  CHECK(words("--mesh=data=32 --shard=weights --keep_axis_order", 8.5, .5, 0, 40) ==
        "another order of axes: less compute (-5.0 % of a step), half the exposed exchange (-5.0 % "
        "of a step); 10.0 % faster; the bits of 1");
}

}  // namespace
}  // namespace oneflow
