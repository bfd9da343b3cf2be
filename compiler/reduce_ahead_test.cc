// Full gradients that wait for their reduction: how many a stage holds where parts are added up at
// once, or later, and at what cost. docs/prefetch.md has the table.
#include <catch2/catch.hpp>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/block_pipe_for_test.h"
#include "compiler/block_plays_for_test.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// Stages of eight blocks; those of interleaved have two chunks of four. Gathers cost nothing.
BlockPipe PipeFor(const std::string& schedule) {
  BlockPipe pipe{*FindSchedule(schedule)};
  pipe.blocks = 8 / pipe.schedule.chunks;
  if (pipe.schedule.splits_backward) pipe.seconds.backward = 1;
  pipe.credits = GatherCredits::kAligned;
  pipe.reduces = true;
  return pipe;
}

BuiltBlocks Proved(const BlockPipe& pipe) {
  absl::StatusOr<BuiltBlocks> built = BuildBlocks(pipe);
  INFO(built.status().ToString());
  REQUIRE(built.ok());
  const absl::Status proof = VerifyPlan(built->plan, {.kernels = false});
  INFO(proof.ToString());
  REQUIRE(proof.ok());
  return *std::move(built);
}

// "held 2, 7.0 blocks, 1.000 1.001 1.085": the most full gradients however slow reductions are;
// bytes; and a step where a reduction takes 0.5, 0.95 and 1.2 of the task of a block that writes
// the gradient, relative to one in which each full gradient may wait for its next micro-batch.
std::string Row(BlockPipe pipe, PartAdds adds, int reduce_ahead) {
  const double writes =
      pipe.schedule.splits_backward ? pipe.seconds.weights : pipe.seconds.backward;
  std::string times;
  int held = 0;
  double blocks = 0;
  for (const double part : {0.5, 0.95, 1.2}) {
    pipe.seconds.reduce = part * writes;
    pipe.adds = PartAdds::kExact;
    pipe.reduce_ahead = pipe.blocks - 1;
    const double unbounded = PlayBlocks(Proved(pipe)).seconds;
    pipe.adds = adds, pipe.reduce_ahead = reduce_ahead;
    const BuiltBlocks built = Proved(pipe);
    held = MostGradients(built), blocks = ArenaBlocks(built);
    char text[16];
    std::snprintf(text, sizeof(text), " %.3f", PlayBlocks(built).seconds / unbounded);
    times += text;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "held %d, %.1f blocks,%s", held, blocks, times.c_str());
  return text;
}

}  // namespace

TEST_CASE("what a bound on full gradients holds and costs, by schedule") {
  struct Expected {
    std::string schedule;
    PartAdds adds;
    int reduce_ahead;
    std::string row;
  };
  const std::vector<Expected> table = {
      {"1f1b", PartAdds::kExact, 7, "held 8, 14.0 blocks, 1.000 1.000 1.000"},
      {"1f1b", PartAdds::kExact, 0, "held 1, 3.5 blocks, 1.288 1.546 1.671"},
      {"1f1b", PartAdds::kExact, 1, "held 2, 5.0 blocks, 1.001 1.001 1.085"},
      {"1f1b", PartAdds::kExact, 2, "held 3, 8.1 blocks, 1.000 1.000 1.000"},
      {"1f1b", PartAdds::kNextSegment, 1, "held 2, 5.0 blocks, 1.000 1.000 1.085"},
      {"1f1b", PartAdds::kNextSegment, 2, "held 3, 6.8 blocks, 0.999 0.999 1.000"},
      {"1f1b", PartAdds::kInSegment, 1, "held 2, 5.4 blocks, 1.025 1.048 1.155"},
      {"gpipe", PartAdds::kExact, 7, "held 8, 14.0 blocks, 1.000 1.000 1.000"},
      {"gpipe", PartAdds::kExact, 0, "held 1, 3.5 blocks, 1.315 1.595 1.609"},
      {"gpipe", PartAdds::kExact, 1, "held 2, 5.0 blocks, 1.000 1.000 1.025"},
      {"gpipe", PartAdds::kExact, 2, "held 3, 8.1 blocks, 1.000 1.000 1.001"},
      {"gpipe", PartAdds::kNextSegment, 1, "held 2, 5.0 blocks, 1.026 1.049 1.073"},
      {"gpipe", PartAdds::kNextSegment, 2, "held 3, 6.8 blocks, 1.025 1.048 1.049"},
      {"gpipe", PartAdds::kInSegment, 1, "held 2, 5.0 blocks, 1.026 1.049 1.073"},
      {"interleaved", PartAdds::kExact, 3, "held 4, 8.0 blocks, 1.000 1.000 1.000"},
      {"interleaved", PartAdds::kExact, 0, "held 1, 3.9 blocks, 1.263 1.498 1.580"},
      {"interleaved", PartAdds::kExact, 1, "held 2, 5.0 blocks, 1.000 1.000 1.045"},
      {"interleaved", PartAdds::kExact, 2, "held 3, 8.2 blocks, 1.000 1.000 1.000"},
      {"interleaved", PartAdds::kNextSegment, 1, "held 2, 5.0 blocks, 1.016 1.032 1.079"},
      {"interleaved", PartAdds::kNextSegment, 2, "held 3, 6.5 blocks, 1.016 1.031 1.039"},
      {"interleaved", PartAdds::kInSegment, 1, "held 2, 5.1 blocks, 1.063 1.121 1.206"},
      {"zero_bubble", PartAdds::kExact, 7, "held 8, 14.0 blocks, 1.000 1.000 1.000"},
      {"zero_bubble", PartAdds::kExact, 0, "held 1, 3.5 blocks, 1.136 1.257 1.291"},
      {"zero_bubble", PartAdds::kExact, 1, "held 2, 5.0 blocks, 1.001 1.001 1.020"},
      {"zero_bubble", PartAdds::kExact, 2, "held 3, 8.0 blocks, 1.000 1.000 1.000"},
      {"zero_bubble", PartAdds::kNextSegment, 1, "held 2, 5.0 blocks, 1.007 1.013 1.034"},
      {"zero_bubble", PartAdds::kNextSegment, 2, "held 3, 6.5 blocks, 1.007 1.013 1.014"},
      {"zero_bubble", PartAdds::kInSegment, 1, "held 2, 5.0 blocks, 1.016 1.030 1.058"}};
  for (const auto& [schedule, adds, reduce_ahead, row] : table) {
    INFO(schedule << " " << static_cast<int>(adds) << " e = " << reduce_ahead);
    CHECK(Row(PipeFor(schedule), adds, reduce_ahead) == row);
  }
}

TEST_CASE("at most e + 1 full gradients are held under any live order") {
  std::mt19937 random(4);
  for (int i = 0; i < 30; ++i) {
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    BlockPipe pipe;
    pipe.stages = 2 + below(2);
    pipe.micro_batches = 2 + below(4);
    pipe.blocks = 1 + below(6);
    pipe.credits = GatherCredits::kAligned;
    pipe.reduces = true;
    pipe.adds = static_cast<PartAdds>(i % 3);
    pipe.reduce_ahead = below(4);
    pipe.schedule =
        DrawSchedule(&random, pipe.stages, 1 + below(3), pipe.micro_batches, below(3) == 0);
    INFO("draw " << i << ": " << pipe.stages << " stages, " << pipe.schedule.chunks << " chunks of "
                 << pipe.blocks << " blocks, e = " << pipe.reduce_ahead);
    CHECK(MostGradients(Proved(pipe)) <= pipe.reduce_ahead + 1);
  }
}

}  // namespace oneflow
