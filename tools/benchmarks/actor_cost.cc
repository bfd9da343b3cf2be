// What an actor costs, measured on the real runtime with kernels that compute nothing.
//
//   actor_cost chain|ping_pong|parked|pipeline [steps]    -> nanoseconds, one number
//
// chain: of a firing, 64 actors in one stream. ping_pong: of a message to another worker and its
// answer, both spinning while they wait; parked: the same, both asleep while they wait. pipeline:
// of a message, 8 workers in a row.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "actor_runtime/exec/runtime.h"
#include "tools/benchmarks/actor_plans.h"

namespace oneflow {
namespace {

constexpr int kActors = 64, kStages = 8, kMicroBatches = 64;

absl::StatusOr<Kernel> MakeNothing(const KernelSetup&) {
  return Kernel([](const KernelCall&) { return absl::OkStatus(); });
}

struct Case {
  proto::Plan plan;
  int64_t steps;  // about a quarter of a second
  double a_step;  // events counted in a step
  bool spin = true;
};

absl::StatusOr<double> Nanoseconds(const Case& c, int64_t steps) {
  RuntimeOptions options;
  options.make_kernel = MakeNothing;
  options.spin = c.spin;
  const absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(c.plan, options);
  if (!runtime.ok()) return runtime.status();
  absl::Status status = (*runtime)->Run("train", {}, steps / 10 + 1);  // warm
  const auto start = std::chrono::steady_clock::now();
  if (status.ok()) status = (*runtime)->Run("train", {}, steps);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  if (!status.ok()) return status;
  return taken.count() / static_cast<double>(steps) / c.a_step;
}

int Main(int argc, char** argv) {
  const std::map<std::string, Case> cases = {
      {"chain", {ChainOfActors(kActors), 100000, kActors}},
      {"ping_pong", {PingPong(), 200000, 1}},
      {"parked", {PingPong(), 10000, 1, false}},
      {"pipeline", {Pipeline(kStages, kMicroBatches), 1000, 2.0 * (kStages - 1) * kMicroBatches}},
  };
  const auto found = cases.find(argc > 1 ? argv[1] : "");
  if (found == cases.end()) {
    std::fprintf(stderr, "usage: actor_cost chain|ping_pong|parked|pipeline [steps]\n");
    return 2;
  }
  const auto ns = Nanoseconds(found->second, argc > 2 ? std::atoll(argv[2]) : found->second.steps);
  if (!ns.ok()) {
    std::fprintf(stderr, "actor_cost: %s\n", ns.status().ToString().c_str());
    return 1;
  }
  std::printf("%.1f\n", *ns);
  return 0;
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
