// Measures a step of a schedule on the real runtime, with kernels that only wait, so its time is
// that of the order, the slots and the messages of a compiled plan.
//
//   schedule_time SCHEDULE STAGES MICRO_BATCHES CHUNKS EXTRA MILLISECONDS STEPS
//
// A small GPT is compiled; in each segment one actor waits, the others do nothing. F takes
// MILLISECONDS a stage, B (with W) twice as long; several chunks share them. A sleep is a little
// longer than asked for, so what the waits took is measured, too. Prints seconds a step, and those
// that the busiest stage waited in its kernels.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "compiler/compile.h"
#include "compiler/schedule/play_orders.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {
namespace {

using Clock = std::chrono::steady_clock;

struct Wait {
  int stage;
  double seconds;
};

CompileOptions ParseOptions(char** argv) {
  CompileOptions options;
  options.mesh = *ParseMesh("pipe=" + std::string(argv[2]));
  options.train.set_schedule(argv[1]);
  options.train.set_batch(std::atoi(argv[3]));
  options.train.set_micro_batches(std::atoi(argv[3]));
  options.train.set_chunks(std::atoi(argv[4]));
  options.train.set_extra_in_flight(std::atoi(argv[5]));
  options.train.set_no_global_norm(true);  // stages do not wait for each other's updates
  return options;
}

absl::StatusOr<proto::Plan> CompilePlan(const CompileOptions& options, const Schedule& schedule) {
  GptConfig config;
  config.layers = options.mesh.stages() * schedule.chunks;
  config.heads = 1, config.hidden = 8, config.sequence = 4, config.vocab = 16;
  config.tied = false;
  return Compile(BuildGpt(config), "gpt", options);
}

// Waiting times of actors, by name: for each segment the first actor that receives a message of
// another stream, or the first of all.
absl::StatusOr<std::map<std::string, Wait>> Waits(const proto::Plan& plan,
                                                  const TaskSeconds& seconds) {
  const std::map<char, double> of_part = {
      {'F', seconds.forward}, {'B', seconds.backward}, {'W', seconds.weights}};
  ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, *FindProgram(plan, "train")));
  std::map<std::string, Wait> waits;
  for (const proto::Segment& segment : net.program->segment()) {
    const int stream = net.actors[segment.actor(0)].stream;
    const auto part = of_part.find(segment.name()[0]);
    if (net.streams[stream].proto->name() != "compute" || part == of_part.end()) continue;
    const auto hears = [&](int actor) {
      const auto& inputs = net.actor(actor).input();
      return std::any_of(inputs.begin(), inputs.end(), [&](const proto::Input& input) {
        const int writer = net.registers[input.register_()].writer;
        return writer >= 0 && net.actors[writer].stream != stream;
      });
    };
    const auto found = std::find_if(segment.actor().begin(), segment.actor().end(), hears);
    const int actor = found == segment.actor().end() ? segment.actor(0) : *found;
    waits[net.actor(actor).name()] = {net.actor(actor).stage(), part->second};
  }
  return waits;
}

// Seconds of a step, and of them those that the busiest stage waited.
struct StepSeconds {
  double step, work;
};

absl::StatusOr<StepSeconds> SecondsAStep(const proto::Plan& plan,
                                         const std::map<std::string, Wait>& waits, int stages,
                                         int64_t steps) {
  std::vector<std::atomic<int64_t>> waited(stages);  // nanoseconds
  RuntimeOptions options;
  options.spin = false;
  options.make_kernel = [&](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    const auto it = waits.find(setup.name);
    if (it == waits.end()) return Kernel([](const KernelCall&) { return absl::OkStatus(); });
    const auto time = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(it->second.seconds));
    return Kernel([time, &total = waited[it->second.stage]](const KernelCall&) {
      const auto start = Clock::now();
      std::this_thread::sleep_until(start + time);
      total += std::chrono::nanoseconds(Clock::now() - start).count();
      return absl::OkStatus();
    });
  };
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
  // The difference of two runs excludes the start and the filling of the pipe, which both contain.
  double seconds[2];
  std::vector<int64_t> work(stages);
  for (const int64_t i : {0, 1}) {
    const auto start = Clock::now();
    RETURN_IF_ERROR(runtime->Run("train", {}, i == 0 ? 1 : 1 + steps));
    seconds[i] = std::chrono::duration<double>(Clock::now() - start).count();
    for (int s = 0; s < stages; ++s) work[s] = waited[s].exchange(0) - work[s];
  }
  const double count = static_cast<double>(steps);
  return StepSeconds{(seconds[1] - seconds[0]) / count,
                     static_cast<double>(*std::ranges::max_element(work)) / 1e9 / count};
}

absl::Status Measure(char** argv) {
  const CompileOptions options = ParseOptions(argv);
  ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(options.train, options.mesh.stages()));
  const double f = std::atof(argv[6]) / 1e3 / schedule.chunks;
  const TaskSeconds seconds{f, schedule.splits_backward ? f : 2 * f, f};
  ASSIGN_OR_RETURN(const proto::Plan plan, CompilePlan(options, schedule));
  ASSIGN_OR_RETURN(const auto waits, Waits(plan, seconds));
  ASSIGN_OR_RETURN(const StepSeconds measured,
                   SecondsAStep(plan, waits, options.mesh.stages(), std::atoi(argv[7])));
  std::printf("%.6f %.6f\n", measured.step, measured.work);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: schedule_time SCHEDULE STAGES MICRO_BATCHES CHUNKS EXTRA MILLISECONDS "
                 "STEPS\n");
    return 2;
  }
  const absl::Status status = Measure(argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "schedule_time: %s\n", std::string(status.message()).c_str());
  return ExitCode(status);
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) { return oneflow::Main(argc, argv); }
