// The proof of liveness against what happens on CPUs, whose streams begin whatever is ready.
// Compiled plans are mutated: slots, rates, initial fills, orders of streams and of issue,
// partners, control edges. Each mutant runs 4 steps under 5 interleavings. A live plan must finish;
// a stuck one may, where only a device that keeps to the order of issue stands
// (tests/cuda/liveness_fuzz_test.cc); an inconsistent one must not. 10,000 mutants with
// ONEFLOW_TEST_FULL, else 250.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "actor_runtime/exec/interleaved_for_test.h"
#include "tests/e2e/mutants.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 4;
constexpr int kInterleavings = 5;

// The outcome of a run. A run that ends, but not at the marking it began with, is not ok.
struct Outcome {
  bool ok = false;
  std::string message;
};

Outcome RunAll(const proto::Plan& plan, int number) {
  RuntimeOptions options{.make_kernel = MakeIdleKernel, .prove = false};
  const auto runtime = Runtime::Create(plan, Interleaved(number, std::move(options)));
  if (!runtime.ok()) return {false, runtime.status().ToString()};
  Outcome first;
  for (int i = 0; i < kInterleavings; ++i) {
    const absl::Status s = (*runtime)->Run("train", {}, kSteps);
    Outcome outcome{s.ok(), std::string(s.message())};
    if (i == 0) first = outcome;
    // A conflict-free net sticks after the same firings, whatever the order.
    INFO("interleaving " << i << ": " << outcome.message);
    REQUIRE(outcome.ok == first.ok);
    REQUIRE(outcome.message == first.message);
  }
  return first;
}

struct Counts {
  int live = 0, stuck = 0, inconsistent = 0, by_two_edges = 0, by_issue = 0;
  int only_free = 0;  // stuck, but for devices that begin what is ready
};

void Check(const proto::Plan& plan, int number, const Judgement& judgement, Counts* counts) {
  INFO(judgement.why);
  const Outcome outcome = RunAll(plan, number);
  INFO("runtime: " << outcome.message);
  switch (judgement.verdict) {
    case Verdict::kLive:
      ++counts->live;
      REQUIRE(outcome.ok);
      break;
    case Verdict::kStuck:
      ++counts->stuck;
      counts->only_free += outcome.ok;
      if (outcome.ok) break;
      REQUIRE(outcome.message.find("stuck") != std::string::npos);
      break;
    case Verdict::kInconsistent:
      ++counts->inconsistent;
      REQUIRE_FALSE(outcome.ok);
      break;
  }
}

void RequireLive(const std::vector<Base>& bases) {
  for (const Base& base : bases) {
    const Judgement judgement = Judge(base.plan);
    INFO(judgement.why);
    REQUIRE(judgement.verdict == Verdict::kLive);
  }
}

TEST_CASE("The verdict on mutated plans is what then happens") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int mutants = full ? 10000 : 250;
  const std::vector<Base> bases = Bases(proto::CPU);
  RequireLive(bases);
  Counts counts;
  for (int i = 0; i < mutants; ++i) {
    INFO("mutant " << i);
    const Mutant mutant = MakeMutant(bases, i);
    counts.by_two_edges += mutant.kind == Mutant::kByTwoEdges;
    counts.by_issue += mutant.kind == Mutant::kByIssue;
    Check(mutant.plan, i, Judge(mutant.plan), &counts);
  }
  INFO("live " << counts.live << ", stuck " << counts.stuck << ", inconsistent "
               << counts.inconsistent << ", by two edges " << counts.by_two_edges
               << ", by the order of issue " << counts.by_issue << ", which free devices finish "
               << counts.only_free);
  CHECK(counts.live * 4 >= mutants);
  CHECK(counts.stuck * 4 >= mutants);
  CHECK(counts.by_two_edges * 100 >= mutants);
  CHECK(counts.by_issue * 10 >= mutants);
}

TEST_CASE("so it is where gathers run ahead of compute, and where a credit comes too late") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int mutants = full ? 2000 : 50;
  const std::vector<Base> bases = BasesWithGathersAhead(proto::CPU);
  RequireLive(bases);
  Counts counts;
  int early = 0, late = 0;
  for (int i = 0; i < mutants; ++i) {
    const CreditMutant mutant = MakeCreditMutant(bases, i);
    INFO("mutant " << i << ", its credit " << mutant.late << " uses late");
    const Judgement judgement = Judge(mutant.plan);
    Check(mutant.plan, i, judgement, &counts);
    if (mutant.late == 0) continue;
    // One use late, a gather waits for the use before its own, with d = 1; early, it holds more.
    if (mutant.late < 0) CHECK(judgement.verdict == Verdict::kLive);
    if (mutant.late > 2) CHECK(judgement.verdict == Verdict::kStuck);
    ++(mutant.late < 0 ? early : late);
  }
  INFO("live " << counts.live << ", stuck " << counts.stuck << ", inconsistent "
               << counts.inconsistent << ", early " << early << ", late " << late);
  CHECK(counts.stuck * 10 >= mutants);
  CHECK(early * 10 >= mutants);
  CHECK(late * 10 >= mutants);
}

TEST_CASE("so it is where registers rest in the host's memory") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int mutants = full ? 2000 : 40;
  const std::vector<Base> bases = BasesWithOffload(proto::CPU);
  RequireLive(bases);
  Counts counts;
  for (int i = 0; i < mutants; ++i) {
    const CreditMutant mutant = MakeCreditMutant(bases, i);
    INFO("mutant " << i << ", its credit " << mutant.late << " uses late");
    Check(mutant.plan, i, Judge(mutant.plan), &counts);
  }
  INFO("live " << counts.live << ", stuck " << counts.stuck << ", inconsistent "
               << counts.inconsistent);
  CHECK(counts.live * 5 >= mutants);
  CHECK(counts.stuck * 8 >= mutants);
}

}  // namespace
}  // namespace oneflow
