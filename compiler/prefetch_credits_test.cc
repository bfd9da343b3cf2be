// Gathers of weights that run ahead of compute: which credits hold how many of them back, at what
// cost, and which orders deadlock. docs/prefetch.md has the tables.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/block_pipe_for_test.h"
#include "compiler/block_plays_for_test.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/verify/verify_liveness.h"
#include "oneflow_core/verify/verify_memory.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// Stages of eight blocks; those of interleaved have two chunks of four.
BlockPipe PipeFor(const std::string& schedule) {
  BlockPipe pipe{*FindSchedule(schedule)};
  pipe.blocks = 8 / pipe.schedule.chunks;
  if (pipe.schedule.splits_backward) pipe.seconds.backward = 1;
  return pipe;
}

BuiltBlocks Built(const BlockPipe& pipe) {
  absl::StatusOr<BuiltBlocks> built = BuildBlocks(pipe);
  INFO(built.status().ToString());
  REQUIRE(built.ok());
  return *std::move(built);
}

BuiltBlocks Proved(const BlockPipe& pipe) {
  BuiltBlocks built = Built(pipe);
  const absl::Status proof = VerifyPlan(built.plan, {.kernels = false});
  INFO(proof.ToString());
  REQUIRE(proof.ok());
  return built;
}

absl::Status Liveness(const proto::Plan& plan) {
  const absl::StatusOr<PlanNet> net = MakePlanNet(plan, plan.program(0));
  REQUIRE(net.ok());
  return VerifyLiveness(*net);
}

// "held 2, 2.0 blocks, 1.000 1.054 1.110": the most gathered whatever the timing; bytes; and a step
// where a gather takes 0.9, 1.2 and 1.4 of a block's forward, relative to one without credits.
std::string Row(BlockPipe pipe, GatherCredits credits, int ahead) {
  std::string times;
  int held = 0;
  double blocks = 0;
  for (const double gather : {0.9, 1.2, 1.4}) {
    pipe.seconds.gather = gather;
    pipe.credits = GatherCredits::kUnlimited;
    const double unlimited = PlayBlocks(Built(pipe)).seconds;
    pipe.credits = credits, pipe.ahead = ahead;
    const BuiltBlocks built = Proved(pipe);
    held = MostGathered(built), blocks = ArenaBlocks(built);
    char text[16];
    std::snprintf(text, sizeof(text), " %.3f", PlayBlocks(built).seconds / unlimited);
    times += text;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "held %d, %.1f blocks,%s", held, blocks, times.c_str());
  return text;
}

}  // namespace

TEST_CASE("what credits hold and cost, by schedule") {
  struct Expected {
    std::string schedule;
    GatherCredits credits;
    int ahead;
    std::string row;
  };
  const std::vector<Expected> table = {
      {"1f1b", GatherCredits::kComputeStream, 0, "held 1, 1.0 blocks, 1.571 1.751 1.867"},
      {"1f1b", GatherCredits::kExact, 1, "held 2, 2.0 blocks, 1.000 1.054 1.110"},
      {"1f1b", GatherCredits::kExact, 2, "held 3, 4.3 blocks, 1.000 1.009 1.058"},
      {"1f1b", GatherCredits::kExact, 3, "held 4, 4.0 blocks, 1.000 1.000 1.009"},
      {"1f1b", GatherCredits::kAligned, 1, "held 2, 2.0 blocks, 1.000 1.054 1.110"},
      {"1f1b", GatherCredits::kAligned, 2, "held 3, 3.0 blocks, 1.000 1.041 1.094"},
      {"1f1b", GatherCredits::kAligned, 3, "held 4, 4.0 blocks, 1.000 1.000 1.009"},
      {"1f1b", GatherCredits::kOneActor, 1, "held 3, 3.0 blocks, 1.000 1.049 1.099"},
      {"1f1b", GatherCredits::kOneActor, 2, "held 5, 5.0 blocks, 1.000 1.004 1.047"},
      {"1f1b", GatherCredits::kAtFirstUse, 1, "held 2, 2.0 blocks, 1.049 1.116 1.176"},
      {"1f1b", GatherCredits::kAtFirstUse, 2, "held 3, 3.0 blocks, 1.049 1.102 1.160"},
      {"1f1b", GatherCredits::kOwnRings, 1, "held 4, 4.0 blocks, 1.000 1.049 1.099"},
      {"1f1b", GatherCredits::kOwnRings, 2, "held 6, 6.0 blocks, 1.000 1.004 1.047"},
      {"gpipe", GatherCredits::kComputeStream, 0, "held 1, 1.0 blocks, 1.574 1.684 1.727"},
      {"gpipe", GatherCredits::kExact, 1, "held 2, 2.0 blocks, 1.000 1.014 1.026"},
      {"gpipe", GatherCredits::kExact, 2, "held 3, 4.3 blocks, 1.000 1.001 1.012"},
      {"gpipe", GatherCredits::kExact, 3, "held 4, 4.0 blocks, 1.000 1.000 1.000"},
      {"gpipe", GatherCredits::kAligned, 1, "held 2, 2.0 blocks, 1.000 1.014 1.026"},
      {"gpipe", GatherCredits::kAligned, 2, "held 3, 3.0 blocks, 1.000 1.001 1.012"},
      {"gpipe", GatherCredits::kAligned, 3, "held 4, 4.0 blocks, 1.000 1.000 1.000"},
      {"gpipe", GatherCredits::kOneActor, 1, "held 3, 3.0 blocks, 1.000 1.014 1.026"},
      {"gpipe", GatherCredits::kOneActor, 2, "held 5, 5.0 blocks, 1.000 1.001 1.012"},
      {"gpipe", GatherCredits::kAtFirstUse, 1, "held 2, 2.0 blocks, 1.051 1.073 1.087"},
      {"gpipe", GatherCredits::kAtFirstUse, 2, "held 3, 3.0 blocks, 1.051 1.060 1.073"},
      {"gpipe", GatherCredits::kOwnRings, 1, "held 4, 4.0 blocks, 1.000 1.014 1.026"},
      {"gpipe", GatherCredits::kOwnRings, 2, "held 6, 6.0 blocks, 1.000 1.001 1.012"},
      {"interleaved", GatherCredits::kComputeStream, 0, "held 1, 1.0 blocks, 1.567 1.728 1.822"},
      {"interleaved", GatherCredits::kExact, 1, "held 2, 2.0 blocks, 1.000 1.044 1.086"},
      {"interleaved", GatherCredits::kExact, 2, "held 3, 4.0 blocks, 1.000 1.000 1.009"},
      {"interleaved", GatherCredits::kExact, 3, "held 4, 4.0 blocks, 1.000 1.000 1.000"},
      {"interleaved", GatherCredits::kAligned, 1, "held 2, 2.0 blocks, 1.000 1.044 1.086"},
      {"interleaved", GatherCredits::kAligned, 2, "held 3, 3.9 blocks, 1.030 1.073 1.111"},
      {"interleaved", GatherCredits::kAligned, 3, "held 4, 4.0 blocks, 1.000 1.000 1.000"},
      {"interleaved", GatherCredits::kOneActor, 1, "held 3, 3.0 blocks, 1.000 1.034 1.067"},
      {"interleaved", GatherCredits::kOneActor, 2, "held 5, 7.0 blocks, 1.000 1.000 1.000"},
      {"interleaved", GatherCredits::kAtFirstUse, 1, "held 2, 2.0 blocks, 1.120 1.188 1.241"},
      {"interleaved", GatherCredits::kAtFirstUse, 2, "held 3, 3.0 blocks, 1.120 1.183 1.231"},
      {"interleaved", GatherCredits::kOwnRings, 1, "held 4, 4.0 blocks, 1.000 1.034 1.067"},
      {"interleaved", GatherCredits::kOwnRings, 2, "held 6, 10.0 blocks, 1.000 1.000 1.000"},
      {"zero_bubble", GatherCredits::kComputeStream, 0, "held 1, 1.0 blocks, 1.698 1.917 2.013"},
      {"zero_bubble", GatherCredits::kExact, 1, "held 2, 2.0 blocks, 1.000 1.134 1.239"},
      {"zero_bubble", GatherCredits::kExact, 2, "held 3, 4.3 blocks, 1.000 1.079 1.177"},
      {"zero_bubble", GatherCredits::kExact, 3, "held 4, 4.0 blocks, 1.000 1.052 1.124"},
      {"zero_bubble", GatherCredits::kAligned, 1, "held 2, 2.0 blocks, 1.000 1.134 1.239"},
      {"zero_bubble", GatherCredits::kAligned, 2, "held 3, 3.0 blocks, 1.000 1.079 1.177"},
      {"zero_bubble", GatherCredits::kAligned, 3, "held 4, 4.0 blocks, 1.000 1.052 1.124"},
      {"zero_bubble", GatherCredits::kOneActor, 1, "held 3, 3.0 blocks, 1.000 1.134 1.239"},
      {"zero_bubble", GatherCredits::kOneActor, 2, "held 5, 5.0 blocks, 1.000 1.079 1.177"},
      {"zero_bubble", GatherCredits::kAtFirstUse, 1, "held 2, 2.0 blocks, 1.061 1.209 1.320"},
      {"zero_bubble", GatherCredits::kAtFirstUse, 2, "held 3, 3.0 blocks, 1.061 1.177 1.283"},
      {"zero_bubble", GatherCredits::kOwnRings, 1, "held 4, 4.0 blocks, 1.000 1.134 1.239"},
      {"zero_bubble", GatherCredits::kOwnRings, 2, "held 6, 6.0 blocks, 1.000 1.079 1.177"}};
  for (const auto& [schedule, credits, ahead, row] : table) {
    INFO(schedule << " " << static_cast<int>(credits) << " d = " << ahead);
    CHECK(Row(PipeFor(schedule), credits, ahead) == row);
  }
}

TEST_CASE("buffers at fixed addresses, by the number of uses of a segment") {
  struct Expected {
    int blocks, ahead;
    std::string exact, aligned;
  };
  const std::vector<Expected> table = {
      {6, 1, "held 2, 2.0 blocks, 1.000 1.052 1.106", "held 2, 2.0 blocks, 1.000 1.052 1.106"},
      {6, 2, "held 3, 3.0 blocks, 1.000 1.000 1.037", "held 3, 3.0 blocks, 1.000 1.000 1.037"},
      {6, 3, "held 4, 6.0 blocks, 1.000 1.000 1.000", "held 4, 4.0 blocks, 1.000 1.000 1.000"},
      {7, 1, "held 2, 2.7 blocks, 1.000 1.053 1.108", "held 2, 2.0 blocks, 1.000 1.053 1.108"},
      {7, 2, "held 3, 3.8 blocks, 1.000 1.004 1.049", "held 3, 3.0 blocks, 1.000 1.040 1.090"},
      {7, 3, "held 4, 7.0 blocks, 1.000 1.000 1.000", "held 4, 4.0 blocks, 1.000 1.004 1.039"},
      {8, 1, "held 2, 2.0 blocks, 1.000 1.054 1.110", "held 2, 2.0 blocks, 1.000 1.054 1.110"},
      {8, 2, "held 3, 4.3 blocks, 1.000 1.009 1.058", "held 3, 3.0 blocks, 1.000 1.041 1.094"},
      {8, 3, "held 4, 4.0 blocks, 1.000 1.000 1.009", "held 4, 4.0 blocks, 1.000 1.000 1.009"},
      {9, 1, "held 2, 2.7 blocks, 1.000 1.055 1.111", "held 2, 2.0 blocks, 1.000 1.055 1.111"},
      {9, 2, "held 3, 3.0 blocks, 1.000 1.015 1.064", "held 3, 3.0 blocks, 1.000 1.015 1.064"},
      {9, 3, "held 4, 4.9 blocks, 1.000 1.000 1.018", "held 4, 4.8 blocks, 1.000 1.012 1.051"},
      {12, 1, "held 2, 2.0 blocks, 1.000 1.056 1.113", "held 2, 2.0 blocks, 1.000 1.056 1.113"},
      {12, 2, "held 3, 3.0 blocks, 1.000 1.026 1.078", "held 3, 3.0 blocks, 1.000 1.026 1.078"},
      {12, 3, "held 4, 4.0 blocks, 1.000 1.000 1.043", "held 4, 4.0 blocks, 1.000 1.000 1.043"}};
  for (const auto& [blocks, ahead, exact, aligned] : table) {
    INFO(blocks << " blocks, d = " << ahead);
    BlockPipe pipe = PipeFor("1f1b");
    pipe.blocks = blocks;
    CHECK(Row(pipe, GatherCredits::kExact, ahead) == exact);
    CHECK(Row(pipe, GatherCredits::kAligned, ahead) == aligned);
  }
}

TEST_CASE(
    "credits hold d + 1 gathers under any live order, in d + 1 buffers where they are aligned") {
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    BlockPipe pipe;
    pipe.stages = 2 + below(2);
    pipe.micro_batches = 2 + below(4);
    pipe.blocks = 1 + below(6);
    pipe.ahead = below(4);
    pipe.credits = i % 2 == 0 ? GatherCredits::kExact : GatherCredits::kAligned;
    pipe.schedule =
        DrawSchedule(&random, pipe.stages, 1 + below(3), pipe.micro_batches, below(3) == 0);
    INFO("draw " << i << ": " << pipe.stages << " stages, " << pipe.schedule.chunks << " chunks of "
                 << pipe.blocks << " blocks, d = " << pipe.ahead);
    const BuiltBlocks built = Proved(pipe);
    CHECK(MostGathered(built) <= pipe.ahead + 1);
    if (pipe.credits != GatherCredits::kAligned) continue;
    const absl::Status in_turn =
        VerifyPlan(MoveIntoTurns(built, pipe.ahead).plan, {.kernels = false});
    INFO(in_turn.ToString());
    CHECK(in_turn.ok());
    // The planner finds these addresses, or takes a buffer more.
    CHECK(ArenaBlocks(built) < pipe.ahead + 2.1);
  }
}

TEST_CASE("rings of a segment's own hold 2 (d + 1), with any number of chunks") {
  for (const int chunks : {1, 2, 4}) {
    for (const int ahead : {0, 1, 2}) {
      BlockPipe pipe = PipeFor(chunks > 1 ? "interleaved" : "1f1b");
      pipe.schedule.chunks = chunks;
      pipe.blocks = 4;
      pipe.credits = GatherCredits::kOwnRings;
      pipe.ahead = ahead;
      INFO(chunks << " chunks, d = " << ahead);
      CHECK(MostGathered(Proved(pipe)) == 2 * (ahead + 1));
    }
  }
}

TEST_CASE("a credit behind the use that it is for deadlocks") {
  BlockPipe pipe = PipeFor("1f1b");
  pipe.ahead = 1;
  pipe.credit_late = 1;  // nothing is gathered ahead where segments meet
  CHECK(Liveness(Built(pipe).plan).ok());
  pipe.credit_late = 2;
  CHECK(Liveness(Built(pipe).plan).message().find("can stop for ever") != std::string::npos);
}

TEST_CASE("a credit one use early holds one more, which the memory proof refuses") {
  BlockPipe pipe = PipeFor("1f1b");
  pipe.credits = GatherCredits::kExact;
  const BuiltBlocks exact = Proved(pipe);
  pipe.credit_late = -1;
  BuiltBlocks early = Proved(pipe);  // with addresses of its own
  CHECK(MostGathered(exact) == 2);
  CHECK(MostGathered(early) == 3);

  proto::Program& program = *early.plan.mutable_program(0);
  for (int i = 0; i < program.register__size(); ++i) {
    const proto::Register& from = exact.plan.program(0).register_(i);
    proto::Register& to = *program.mutable_register_(i);
    REQUIRE(to.name() == from.name());
    to.set_offset(from.offset());
    to.set_buffers(from.buffers());
    to.set_stride(from.stride());
    to.set_first_buffer(from.first_buffer());
  }
  *early.plan.mutable_memory() = exact.plan.memory();
  const absl::StatusOr<PlanNet> net = MakePlanNet(early.plan, program);
  REQUIRE(net.ok());
  CHECK(VerifyLiveness(*net).ok());
  CHECK_FALSE(VerifyMemory(*net).ok());
}

TEST_CASE("gathers in another order than compute uses them deadlock") {
  BuiltBlocks built = Proved(PipeFor("1f1b"));
  for (proto::Stream& stream : *built.plan.mutable_program(0)->mutable_stream()) {
    if (stream.name() != "collective") continue;
    // All those of forwards, then all those of backwards.
    std::map<int, int> times;
    for (const proto::OrderRun& run : stream.order()) {
      for (const int segment : run.segment()) times[segment] += run.repeat();
    }
    stream.clear_order();
    for (const auto& [segment, repeat] : times) {
      proto::OrderRun* run = stream.add_order();
      run->add_segment(segment);
      run->set_repeat(repeat);
    }
  }
  CHECK(Liveness(built.plan).message().find("can stop for ever") != std::string::npos);
}

TEST_CASE(
    "a gather issued before a receive that its credit waits for deadlocks in the serial form") {
  const BuiltBlocks built = Proved(PipeFor("1f1b"));
  const proto::Program& program = built.plan.program(0);
  const auto kernel = [&](int actor) { return program.actor(actor).kernel(); };
  int moved = 0, refused = 0;
  for (int stage = 0; stage < program.issue_size(); ++stage) {
    std::vector<int> issued;
    for (const proto::ActorRun& run : program.issue(stage).run()) {
      for (int i = 0; i < run.repeat(); ++i) {
        issued.insert(issued.end(), run.actor().begin(), run.actor().end());
      }
    }
    for (size_t i = 1; i < issued.size(); ++i) {
      if (kernel(issued[i]) != "all_gather" || kernel(issued[i - 1]) != "receive") continue;
      std::vector<int> order = issued;
      std::swap(order[i - 1], order[i]);
      proto::Plan plan = built.plan;
      proto::IssueOrder* issue = plan.mutable_program(0)->mutable_issue(stage);
      issue->clear_run();
      proto::ActorRun* run = issue->add_run();
      run->set_repeat(1);
      run->mutable_actor()->Add(order.begin(), order.end());
      ++moved;
      const absl::Status proof = Liveness(plan);
      if (proof.ok()) continue;
      ++refused;
      CHECK(proof.message().find("its turn to be issued") != std::string::npos);
    }
  }
  // Free devices finish all of them: they know no order of issue.
  CHECK(moved > refused);
  CHECK(refused > 0);
}

}  // namespace oneflow
