// The proof of liveness against brute force. Small programs are drawn, and their orders of issue
// are changed; a game of tokens on all devices (byte_game.h), with the orders of issue, stands
// still exactly where the proof says so, whether or not the proof skips cycles. What cannot stop in
// order cannot stop where devices issue exchanges as they come to them. 30,000 programs with
// ONEFLOW_TEST_FULL, else 1,000.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "oneflow_core/net/byte_game.h"
#include "oneflow_core/net/random_program.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

constexpr int kMoves = 4;  // of each plan

struct Counts {
  int plans = 0, with_pairs = 0, with_collectives = 0;
  int live = 0, dead = 0, dead_in_order_only = 0;
};

// True if a game with the orders of issue, or one of two games, comes to its end.
bool Ends(const PlanNet& net, int games, uint32_t seed) {
  const std::string stands = FirstOverlap(net, {.games = games, .steps = 2, .seed = seed});
  INFO(stands);
  CHECK((stands.empty() || stands.find(" waits for ever ") != std::string::npos));
  return stands.empty();
}

void Count(const proto::Plan& plan, Counts* counts) {
  bool pairs = false, collectives = false;
  for (const proto::Actor& actor : plan.program(0).actor()) {
    pairs = pairs || actor.exchange().has_partner();
    collectives = collectives || (actor.has_exchange() && !actor.exchange().has_partner());
  }
  ++counts->plans;
  counts->with_pairs += pairs;
  counts->with_collectives += collectives;
}

// The program without its orders of issue.
proto::Plan WithoutOrders(proto::Plan plan) {
  plan.mutable_program(0)->clear_issue();
  return plan;
}

void Compare(const proto::Plan& plan, uint32_t seed, Counts* counts) {
  const auto net = MakePlanNet(plan, plan.program(0));
  if (!VerifyPlanTypes(plan).ok() || !net.ok() || !VerifyProgramTypes(*net).ok()) return;
  Count(plan, counts);
  const absl::Status proof = VerifyLiveness(*net);
  INFO(proof);
  CHECK(VerifyLiveness(*net, Play::kEveryFiring).ok() == proof.ok());
  CHECK(Ends(*net, proof.ok() ? 2 : 1, seed) == proof.ok());
  ++(proof.ok() ? counts->live : counts->dead);
  if (proof.ok()) return;
  const proto::Plan free = WithoutOrders(plan);
  counts->dead_in_order_only += Ends(*MakePlanNet(free, free.program(0)), 1, seed);
}

}  // namespace

TEST_CASE("a game on all devices stands still where the proof of liveness says so") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int programs = full ? 30'000 : 1000;
  Counts counts;
  for (int seed = 0; seed < programs; ++seed) {
    INFO("seed " << seed);
    proto::Plan plan = RandomProgram(seed);
    Compare(plan, seed, &counts);
    std::mt19937 random(seed);
    for (int move = 0; move < kMoves; ++move) {
      MoveExchange(random, plan.mutable_program(0));
      Compare(plan, seed, &counts);
    }
  }
  std::cout << counts.plans << " plans, " << counts.with_pairs << " with sends and receives, "
            << counts.with_collectives << " with collectives; " << counts.live << " live, "
            << counts.dead << " not, of which " << counts.dead_in_order_only
            << " only in their order of issue\n";
  CHECK(counts.plans > 3 * programs);
  CHECK(counts.with_pairs * 5 > counts.plans);
  CHECK(counts.with_collectives * 5 > counts.plans);
  CHECK(counts.live > programs);
  CHECK(counts.dead * 10 > programs);
  CHECK(counts.dead_in_order_only * 20 > programs);
}

TEST_CASE("so does one of programs with copies to the host's memory and back") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int programs = full ? 10'000 : 500;
  Counts counts;
  int with_copies = 0;
  for (int seed = 0; seed < programs; ++seed) {
    INFO("seed " << seed);
    const proto::Plan plan = RandomProgramWithCopies(seed);
    with_copies += HasHostArenas(plan);
    Compare(plan, seed, &counts);
  }
  std::cout << with_copies << " programs with copies; " << counts.live << " plans live, "
            << counts.dead << " not\n";
  CHECK(with_copies * 3 > programs);
  CHECK(counts.live * 3 > programs);
  CHECK(counts.dead * 20 > programs);
}

}  // namespace oneflow
