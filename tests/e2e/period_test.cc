// A simulation that skips periods gives the results of one that plays every firing: the spans of
// all firings to the bit, and all that is made of them.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planning/simulate/critical_path.h"
#include "planning/simulate/live_memory.h"
#include "planning/simulate/simulate.h"
#include "planning/simulate/summary.h"
#include "planning/simulate/utilization.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

using Seconds = std::vector<double>;

// Seconds of each kernel of `program` on each stage, which are uneven: random, with a wide range
// like those of real kernels, or small integers, so that many events have one time.
Seconds RandomSeconds(const proto::Program& program, bool integers, std::mt19937* random) {
  std::uniform_real_distribution<double> magnitude(-6, -2);
  std::uniform_int_distribution<int> few(0, 3);
  Seconds seconds;
  for (int a = 0; a < program.actor_size(); ++a) {
    seconds.push_back(integers ? few(*random) : std::pow(10, magnitude(*random)));
  }
  for (const proto::Actor& actor : program.actor()) {
    if (actor.has_exchange() && actor.exchange().has_partner()) {
      seconds[actor.id()] = seconds[actor.exchange().partner()];
    }
  }
  return seconds;
}

SimulatedRun Run(const proto::Plan& plan, SimulateOptions options, int64_t skip_after) {
  options.skip_after = skip_after;
  return Simulate(plan, "train", options).value();
}

void CheckSpans(const SimulatedRun& skipped, const SimulatedRun& full) {
  int64_t different = 0;
  for (int32_t a = 0; a < static_cast<int32_t>(full.net.specs.size()); ++a) {
    for (int64_t f = 0; f < full.CountFirings(a); ++f) {
      different += skipped.FindSpan(a, f) == full.FindSpan(a, f) ? 0 : 1;
    }
  }
  CHECK(different == 0);
  CHECK(skipped.step_ends == full.step_ends);
}

void CheckSums(const proto::Plan& plan, const SimulatedRun& skipped, const SimulatedRun& full) {
  const Utilization a = FindUtilization(skipped), b = FindUtilization(full);
  CHECK(a.stream_busy == b.stream_busy);
  CHECK(a.devices == b.devices);
  CHECK(a.bubble == b.bubble);
  const std::vector<LiveMemory> memory = FindLiveMemory(plan, skipped);
  const std::vector<LiveMemory> full_memory = FindLiveMemory(plan, full);
  for (size_t d = 0; d < memory.size(); ++d) {
    CHECK(memory[d].peak_bytes == full_memory[d].peak_bytes);
    CHECK(memory[d].curve.back() == full_memory[d].curve.back());
    CHECK(std::is_sorted(memory[d].curve.begin(), memory[d].curve.end(),
                         [](const auto& p, const auto& q) { return p.time < q.time; }));
  }
  CHECK(FindCriticalPath(skipped).slack == FindCriticalPath(full).slack);
  const SimulationSummary s = Summarize(plan, "", skipped), t = Summarize(plan, "", full);
  CHECK(s.critical_step_seconds == Approx(t.critical_step_seconds).epsilon(1e-9));
  CHECK(s.critical_kinds.size() == t.critical_kinds.size());
  REQUIRE(s.parts.size() == t.parts.size());
  for (size_t i = 0; i < s.parts.size(); ++i) CHECK(s.parts[i].seconds == t.parts[i].seconds);
  REQUIRE(s.critical_seconds.size() == t.critical_seconds.size());
  for (const auto& [kernel, seconds] : t.critical_seconds) {
    INFO(kernel);
    REQUIRE(s.critical_seconds.contains(kernel));
    CHECK(s.critical_seconds.at(kernel) == Approx(seconds).epsilon(1e-9));
  }
}

// The present blocks are those of the full run.
void CheckBlocks(const proto::Plan& plan, const SimulatedRun& skipped, const SimulatedRun& full) {
  const auto key = [](const SimulationSummary::Block& b) {
    return std::make_pair(std::make_pair(b.segment, b.number),
                          std::make_pair(b.step, std::make_pair(b.begin, b.end)));
  };
  const SimulationSummary s = Summarize(plan, "", skipped), t = Summarize(plan, "", full);
  for (size_t d = 0; d < s.stages.size(); ++d) {
    for (size_t i = 0; i < s.stages[d].streams.size(); ++i) {
      const auto& some = s.stages[d].streams[i].blocks;
      const auto& all = t.stages[d].streams[i].blocks;
      size_t left_out = 0, next = 0;
      for (const auto& block : all) {
        if (next < some.size() && key(some[next]) == key(block)) {
          ++next;
          continue;
        }
        // Missing blocks ended in skipped periods.
        const bool in_one =
            std::any_of(skipped.repeats.begin(), skipped.repeats.end(), [&](const auto& repeat) {
              return block.end >= repeat.skipped_begin() && block.begin <= repeat.skipped_end();
            });
        CHECK(in_one);
        ++left_out;
      }
      CHECK(next == some.size());
      CHECK(left_out + some.size() == all.size());
    }
  }
}

SmallRun Small(const std::string& schedule, int stages, int64_t micro_batches) {
  SmallRun small;
  small.model.set_layers(stages);
  small.Set("mesh", "pipe=" + std::to_string(stages));
  small.recipe.set_schedule(schedule);
  small.recipe.set_batch(micro_batches);
  small.recipe.set_micro_batches(micro_batches);
  if (schedule == "interleaved") {
    small.Set("--chunks=2");
    small.model.set_layers(2 * stages);
  }
  if (schedule == "2bw") {
    small.model.set_tied(false);
    small.Set("--global_norm=false");
  }
  return small;
}

const proto::Program& Train(const proto::Plan& plan) {
  const proto::Program& program = plan.program(1);
  REQUIRE(program.name() == "train");
  return program;
}

TEST_CASE("skipping changes nothing, over schedules, micro-batches and times") {
  std::mt19937 random(20);
  int64_t periods = 0, of_workers = 0, of_links = 0, of_issuing = 0;
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble", "2bw"}) {
    for (const auto& [stages, m] :
         std::vector<std::pair<int, int64_t>>{{2, 8}, {2, 37}, {3, 100}, {4, 64}, {4, 200}}) {
      const proto::Plan plan = CompileSmall(Small(schedule, stages, m));
      const proto::Program& program = Train(plan);
      for (int trial = 0; trial < 6; ++trial) {
        INFO(schedule << " on " << stages << " stages, " << m << " micro-batches, " << trial);
        SimulateOptions options{.steps = 2};
        options.actor_seconds = RandomSeconds(program, /*integers=*/trial % 4 == 1, &random);
        // Firings that are issued, some faster than kernels end and some not.
        if (trial >= 4)
          options.issue_seconds =
              trial == 4 ? std::pow(10, -2 - static_cast<int>(random() % 4)) : 1;
        if (trial == 2 || trial == 3)
          options.worker_a_device = true, options.message_seconds = 1e-5;
        if (trial == 3) options.link_seconds = RandomSeconds(program, /*integers=*/false, &random);
        for (int a = 0; a < program.actor_size() && trial == 3; ++a) {
          if (!program.actor(a).has_exchange()) options.link_seconds[a] = 0;
        }
        const SimulatedRun skipped = Run(plan, options, /*skip_after=*/0);
        const SimulatedRun full = Run(plan, options, SimulateOptions::kNeverSkip);
        CHECK(full.repeats.empty());
        CheckSpans(skipped, full);
        CheckSums(plan, skipped, full);
        CheckBlocks(plan, skipped, full);
        for (const SimulatedRun::Repeat& repeat : skipped.repeats) {
          (trial >= 4   ? of_issuing
           : trial == 3 ? of_links
           : trial == 2 ? of_workers
                        : periods) += repeat.times;
        }
      }
    }
  }
  CHECK(periods > 100);
  CHECK(of_workers > 100);
  CHECK(of_links > 100);
  CHECK(of_issuing > 100);
}

TEST_CASE("ten times the micro-batches store no more firings") {
  for (const std::string schedule : {"1f1b", "interleaved", "zero_bubble"}) {
    INFO(schedule);
    std::vector<size_t> stored;
    for (const int64_t m : {80, 800}) {
      const proto::Plan plan = CompileSmall(Small(schedule, /*stages=*/4, m));
      SimulateOptions options{.steps = 2};
      options.actor_seconds.assign(Train(plan).actor_size(), 1);
      const SimulatedRun run = Run(plan, options, /*skip_after=*/0);
      CHECK(run.repeats.size() == 2);
      stored.push_back(run.order.size());
    }
    CHECK(stored[1] == stored[0]);
  }
}

TEST_CASE("firings that are skipped are not counted among the most that a run may play") {
  const proto::Plan plan = CompileSmall(Small("1f1b", /*stages=*/2, /*micro_batches=*/800));
  SimulateOptions options{.steps = 2};
  options.actor_seconds.assign(Train(plan).actor_size(), 1);
  const SimulatedRun run = Run(plan, options, /*skip_after=*/0);
  options.most_firings = static_cast<int64_t>(run.order.size());
  CHECK(Run(plan, options, /*skip_after=*/0).step_ends == run.step_ends);
  CHECK(Simulate(plan, "train", options).status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("periods are skipped after as many firings as are asked for") {
  const proto::Plan plan = CompileSmall(Small("1f1b", /*stages=*/2, /*micro_batches=*/64));
  SimulateOptions options{.steps = 2};
  options.actor_seconds.assign(Train(plan).actor_size(), 1);
  const auto full =
      static_cast<int64_t>(Run(plan, options, SimulateOptions::kNeverSkip).order.size());
  CHECK(Run(plan, options, full).repeats.empty());
  const SimulatedRun run = Run(plan, options, full / 2);
  REQUIRE(run.repeats.size() == 1);
  CHECK(run.repeats[0].end >= full / 2);
}

}  // namespace
}  // namespace oneflow
