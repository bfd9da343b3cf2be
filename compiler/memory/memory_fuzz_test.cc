// The memory proof against brute force. Small programs are drawn and their memory is planned; then
// registers are moved about as long as the proof lets them. What it lets pass is played in random
// legal orders on all devices (oneflow_core/net/byte_game.h): no two live fills may overlap. Both
// plays of the proof must agree, what is skipped must leave no better a state than if it had been
// played (oneflow_core/verify/skip_game.h), no plan as the planner made it may be refused, and of
// what is refused nearly all must overlap in some order: else the proof would be needlessly strict.
// 30,000 programs with ONEFLOW_TEST_FULL, else 1,000.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <utility>

#include "compiler/memory/plan_memory.h"
#include "oneflow_core/net/byte_game.h"
#include "oneflow_core/net/random_program.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/verify/frames.h"
#include "oneflow_core/verify/skip_game.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

constexpr int kMoves = 100;        // of each plan
constexpr int kAcceptedAPlay = 5;  // every fifth plan that the proof lets pass is played
constexpr int kRefusedAPlay = 20;  // every twentieth that it refuses
constexpr int kGames = 6;          // of what must not overlap
constexpr int kGamesRefused = 20;  // of what should

struct Counts {
  int programs = 0, accepted = 0, refused = 0;
  int with_sums = 0, with_pairs = 0, with_workspaces = 0;  // programs
  int in_frames = 0, filled_once = 0;  // registers of plans at the end of their moves
  int turning = 0;  // of those in frames: with others, and in another frame first from step to step
  int overlap = 0, unsure = 0;  // of the refused that were played
  SkipCounts skips;
};

std::string Overlap(const proto::Plan& plan, int games, std::mt19937& random) {
  const auto net = MakePlanNet(plan, plan.program(0));
  const auto seed = static_cast<uint32_t>(random());
  return FirstOverlap(*net, {.games = games, .steps = 5, .seed = seed});
}

// True if the memory proof may be asked.
bool IsLegal(const proto::Plan& plan) {
  if (!VerifyPlanTypes(plan).ok()) return false;
  const auto net = MakePlanNet(plan, plan.program(0));
  return net.ok() && VerifyProgramTypes(*net).ok() && VerifyLiveness(*net).ok();
}

// The proof's verdict, which must not depend on whether it skips cycles.
absl::Status Proof(const proto::Plan& plan, SkipCounts* skips) {
  const auto net = MakePlanNet(plan, plan.program(0));
  absl::Status skipping = VerifyMemory(*net, Play::kSkipCycles);
  const absl::Status every = VerifyMemory(*net, Play::kEveryFiring);
  INFO("skipping cycles: " << skipping << "\nevery firing: " << every);
  CHECK(skipping.ok() == every.ok());
  CHECK(FirstBadSkip(*net, skips) == "");
  return skipping;
}

proto::Plan Planned(proto::Plan plan) {
  const int stages = StageCount(plan);
  plan.clear_memory();
  REQUIRE(PlanMemory(stages, &plan).ok());
  return plan;
}

// Of a plan in which nothing overlaps: the proof sees it.
void CheckAccepted(const proto::Plan& plan, std::mt19937& random, Counts* counts) {
  const absl::Status proof = Proof(plan, &counts->skips);
  INFO(proof);
  CHECK(proof.ok());
  CHECK(Overlap(plan, kGames, random) == "");
}

// Bytes that no register has yet, to move to.
void AddRoom(int64_t bytes, proto::Plan* plan) {
  for (proto::StageMemory& memory : *plan->mutable_memory()) {
    memory.set_register_bytes(memory.register_bytes() + bytes);
    memory.set_arena_bytes(memory.arena_bytes() + bytes);
  }
}

void CountRegisters(const proto::Plan& plan, Counts* counts) {
  const auto net = MakePlanNet(plan, plan.program(0));
  for (const Frames& frames : FindFrames(*net)) {
    const auto members = static_cast<int>(frames.members.size());
    counts->in_frames += members;
    const NetRegister& r = net->registers[frames.members.front()];
    const int64_t fills = net->actors[r.writer].firings / r.fires_per_fill;
    if (members > 1 && fills % frames.buffers != 0) counts->turning += members;
  }
  for (const NetRegister& r : net->registers) counts->filled_once += FillsBuffersOnce(*net, r);
}

// Moves registers about; where the proof refuses, they stay. What is accepted is the next to be
// moved, so plans get ever further from those that a planner would make.
void Wander(proto::Plan plan, std::mt19937& random, Counts* counts) {
  for (int i = 0; i < kMoves; ++i) {
    proto::Plan moved = plan;
    for (int moves = 1 + i % 2; moves > 0; --moves) MoveRegister(random, moved.mutable_program(0));
    if (!IsLegal(moved)) continue;
    if (Proof(moved, &counts->skips).ok()) {
      plan = std::move(moved);
      if (++counts->accepted % kAcceptedAPlay == 0) CHECK(Overlap(plan, kGames, random) == "");
    } else if (++counts->refused % kRefusedAPlay == 0) {
      ++(Overlap(moved, kGamesRefused, random).empty() ? counts->unsure : counts->overlap);
    }
  }
  CHECK(Overlap(plan, kGames, random) == "");
  CountRegisters(plan, counts);
}

void CountProgram(const proto::Plan& plan, Counts* counts) {
  ++counts->programs;
  bool sums = false, pairs = false, workspaces = false;
  for (const proto::Actor& actor : plan.program(0).actor()) {
    workspaces = workspaces || actor.has_workspace();
    sums = sums || (actor.has_exchange() && !actor.exchange().has_partner());
    pairs = pairs || actor.exchange().has_partner();
  }
  counts->with_sums += sums;
  counts->with_pairs += pairs;
  counts->with_workspaces += workspaces;
}

void Fuzz(uint32_t seed, proto::Plan apart, Counts* counts) {
  if (apart.program(0).register__size() < 2 || !IsLegal(apart)) return;
  CountProgram(apart, counts);
  proto::Plan planned = Planned(apart);
  std::mt19937 random(seed);
  CheckAccepted(apart, random, counts);
  CheckAccepted(planned, random, counts);
  for (proto::Plan* plan : {&apart, &planned}) {
    constexpr int64_t kRooms[] = {0, 128, 1024};
    AddRoom(kRooms[seed % 3], plan);
    Wander(*plan, random, counts);
  }
}

}  // namespace

namespace {

// The same plan with all bytes 1,024 times over: only of registers of 64 KiB and more the planner
// asks what streams other than compute know of each other.
proto::Plan Enlarged(proto::Plan plan) {
  constexpr int64_t kTimes = 1024;
  for (proto::Register& r : *plan.mutable_program(0)->mutable_register_()) {
    for (auto& size : *r.mutable_layout()->mutable_dim()) size *= kTimes;
    r.set_slot_bytes(kTimes * r.slot_bytes());
    r.set_offset(kTimes * r.offset());
    r.set_stride(kTimes * r.stride());
  }
  for (proto::StageMemory& memory : *plan.mutable_memory()) {
    memory.set_register_bytes(kTimes * memory.register_bytes());
    memory.set_arena_bytes(kTimes * memory.arena_bytes());
  }
  return plan;
}

int64_t ArenaBytes(const proto::Plan& plan) {
  int64_t bytes = 0;
  for (const proto::StageMemory& memory : plan.memory()) bytes += memory.register_bytes();
  return bytes;
}

}  // namespace

TEST_CASE("what streams know of those before them on theirs saves bytes, and is true") {
  Counts counts;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const proto::Plan small = RandomProgram(seed);
    if (small.program(0).register__size() < 2 || !IsLegal(small)) continue;
    const proto::Plan planned = Planned(Enlarged(small));
    if (ArenaBytes(planned) >= 1024 * ArenaBytes(Planned(small))) continue;
    INFO("seed " << seed);
    CountProgram(planned, &counts);
    std::mt19937 random(seed);
    CheckAccepted(planned, random, &counts);
  }
  std::cout << counts.programs << " programs take fewer bytes\n";
  CHECK(counts.programs > 30);
}

TEST_CASE("what the memory proof lets pass has no two live fills that overlap") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int programs = full ? 30'000 : 1000;
  Counts counts;
  for (int seed = 0; seed < programs; ++seed) {
    INFO("seed " << seed);
    Fuzz(seed, RandomProgram(seed), &counts);
  }
  const int played = counts.overlap + counts.unsure;
  std::cout << counts.programs << " programs, " << counts.with_sums << " with sums, "
            << counts.with_pairs << " with sends, " << counts.with_workspaces
            << " with workspaces; " << counts.accepted << " moves accepted, " << counts.refused
            << " refused, of which " << counts.overlap << " of " << played
            << " overlap; at the end " << counts.in_frames << " registers in frames, "
            << counts.turning << " in frames that turn, " << counts.filled_once << " filled once; "
            << counts.skips.skips << " skips, " << counts.skips.frames_turned
            << " of which turn frames, " << counts.skips.looser << " looser than play\n";
  // The draws are the same each time, so these hold of what was just counted: nine tenths of it, or
  // less where the long form counts fewer.
  CHECK(counts.programs * 2 > programs);
  CHECK(counts.with_sums * 4 > counts.programs);
  CHECK(counts.with_pairs * 5 > counts.programs);
  CHECK(counts.with_workspaces * 5 > counts.programs * 4);
  CHECK(counts.accepted > 50 * counts.programs);
  CHECK(counts.refused > 42 * counts.programs);
  CHECK(counts.in_frames * 4 > counts.programs);
  CHECK(counts.turning * 25 > counts.programs);
  CHECK(counts.filled_once * 10 > counts.programs * 9);
  CHECK(counts.skips.skips > 80 * counts.programs);
  CHECK(counts.skips.frames_turned * 15 > counts.skips.skips);
  CHECK(counts.skips.looser * 4 < counts.skips.skips);
  CHECK(played > 2 * counts.programs);
  // A proof that is stricter than it need be refuses what never overlaps.
  CHECK(counts.overlap * 100 >= played * 96);
}

TEST_CASE("so it is where registers rest in the host's memory") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const int programs = full ? 10'000 : 400;
  Counts counts;
  int with_copies = 0;
  for (int seed = 0; seed < programs; ++seed) {
    INFO("seed " << seed);
    proto::Plan plan = RandomProgramWithCopies(seed);
    if (!HasHostArenas(plan) || !IsLegal(plan)) continue;
    ++with_copies;
    Fuzz(seed, std::move(plan), &counts);
  }
  const int played = counts.overlap + counts.unsure;
  std::cout << with_copies << " programs with copies; " << counts.accepted << " moves accepted, "
            << counts.refused << " refused, of which " << counts.overlap << " of " << played
            << " overlap\n";
  CHECK(with_copies * 5 > programs);
  CHECK(counts.accepted > 50 * with_copies);
  CHECK(counts.refused > 42 * with_copies);
  CHECK(counts.overlap * 100 >= played * 90);
}

}  // namespace oneflow
