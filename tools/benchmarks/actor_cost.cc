// Measures the cost of an actor on the real runtime, with kernels that compute nothing.
//
//   actor_cost chain|ping_pong|parked|pipeline [seconds]    -> nanoseconds, one number
//
// chain: of a firing, 64 actors in one stream. ping_pong: of a message to another worker and its
// answer, both spinning while they wait; parked: the same, both asleep while they wait. pipeline:
// of a message, 8 workers in a row.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "planning/measure/actor_plans.h"
#include "planning/measure/actor_time.h"

namespace oneflow {
namespace {

constexpr int kActors = 64, kStages = 8, kMicroBatches = 64;

struct Case {
  proto::Plan plan;
  double a_step;  // events counted in a step
  bool spin = true;
};

int Main(int argc, char** argv) {
  const std::map<std::string, Case> cases = {
      {"chain", {ChainOfActors(kActors), kActors}},
      {"ping_pong", {PingPong(), 1}},
      {"parked", {PingPong(), 1, false}},
      {"pipeline", {Pipeline(kStages, kMicroBatches), 2.0 * (kStages - 1) * kMicroBatches}},
  };
  const auto found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: actor_cost chain|ping_pong|parked|pipeline [seconds]\n");
    return 2;
  }
  const Case& c = found->second;
  const absl::StatusOr<double> seconds =
      TimeStep(c.plan, argc > 2 ? std::atof(argv[2]) : 0.25, c.spin);
  if (!seconds.ok()) {
    std::fprintf(stderr, "actor_cost: %s\n", seconds.status().ToString().c_str());
    return 1;
  }
  std::printf("%.1f\n", *seconds * 1e9 / c.a_step);
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
