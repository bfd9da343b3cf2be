// The simulated bubble of compiled plans against the formulas of the field, for stages that take
// the same time and links that take none.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "actor_runtime/simulate/simulate.h"
#include "actor_runtime/simulate/utilization.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr double kForward = 1, kBackward = 2;

// The first actor of each F and B takes the time of its segment, all others none.
std::vector<double> EqualStageTimes(const proto::Program& program) {
  std::vector<double> seconds(program.actor_size(), 0);
  for (const proto::Segment& segment : program.segment()) {
    if (segment.name() == "F") seconds[segment.actor(0)] = kForward;
    if (segment.name() == "B") seconds[segment.actor(0)] = kBackward;
  }
  return seconds;
}

Utilization SimulatedUse(const std::string& schedule, int stages, int micro_batches,
                         int64_t steps) {
  SmallRun small;
  small.model.layers = stages;
  small.mesh = "pipe=" + std::to_string(stages);
  small.schedule = schedule;
  small.batch = micro_batches;
  small.micro_batches = micro_batches;
  const proto::Plan plan = CompileSmall(small);
  for (const proto::Program& program : plan.program()) {
    if (program.name() != "train") continue;
    const absl::StatusOr<SimulatedRun> run =
        Simulate(plan, "train", {.steps = steps, .actor_seconds = EqualStageTimes(program)});
    INFO(run.status());
    REQUIRE(run.ok());
    return UtilizationOf(*run);
  }
  FAIL("no program train");
  return {};
}

TEST_CASE("gpipe and 1f1b wait (p - 1) / m of what they compute") {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {1, 4, 8, 24}) {
        for (const int64_t steps : {1, 3}) {
          INFO(schedule << " on " << p << " stages, " << m << " micro-batches, " << steps);
          const Utilization use = SimulatedUse(schedule, p, m, steps);
          const double waits = p - 1;
          CHECK(use.bubble_over_busy == Approx(waits / m).epsilon(1e-9));
          CHECK(use.bubble == Approx(waits / (m + waits)).epsilon(1e-9));
        }
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
