#include "tools/oneflow/train/promise_run.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "actor_runtime/exec/trace_facts.h"
#include "oneflow_core/base/status.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/cluster_flags.h"
#include "tools/oneflow/cli/progress_printer.h"

namespace oneflow {
namespace {

constexpr int64_t kStepsWatched = 10, kMostWatched = int64_t{1} << 18;

absl::StatusOr<Promise> PromiseHere(const Runtime& runtime, const KernelSetups& setups,
                                    int processes, double machine_flops, bool predicts) {
  const proto::Plan& plan = runtime.plan();
  const MeasurePlanOptions options{.threads = runtime.kernel_threads(),
                                   .devices = runtime.ranks(),
                                   .matrix_flops = machine_flops / runtime.ranks() / processes};
  ASSIGN_OR_RETURN(proto::Cluster cluster, MeasurePlan(plan, setups, options));
  std::string basis = "by times of the plan's kernels, just measured here";
  if (processes > 1) {
    cluster.clear_level();
    ASSIGN_OR_RETURN(cluster, WithProcesses(std::move(cluster), plan, processes));
    basis += "; links between processes assumed, 10 GB/s";
  }
  return MakePromise(plan, cluster, std::move(basis), predicts);
}

}  // namespace

absl::StatusOr<std::optional<Promise>> PromiseOfRun(const Arguments& args, const Runtime& runtime,
                                                    const KernelSetups& setups, int processes,
                                                    double machine_flops, bool predicts) {
  const proto::Plan& plan = runtime.plan();
  const bool gpus = plan.device_kind() != proto::CPU;
  if (args.Given("cluster") || args.Given("system") || (gpus && HasRates(args, plan))) {
    ASSIGN_OR_RETURN(const proto::Cluster cluster, ClusterToSimulate(args, plan));
    ASSIGN_OR_RETURN(Promise promise,
                     MakePromise(plan, cluster, "simulated on " + cluster.name(), predicts));
    promise.band = FindPlanBand(cluster, plan, "train");
    return promise;
  }
  if (gpus) {
    if (!predicts) return std::nullopt;
    return InputError("--predict", "the plan is for GPUs, and says nothing of their rates",
                      "give --cluster=FILE, which `oneflow calibrate --device=cuda` measures");
  }
  absl::StatusOr<Promise> promise =
      PromiseHere(runtime, setups, processes, machine_flops, predicts);
  if (promise.ok()) return *std::move(promise);
  if (predicts) return promise.status();
  PrintNotice(
      absl::StrFormat("warning: no time is promised: %s", std::string(promise.status().message())));
  return std::nullopt;
}

void WatchFirstSteps(const proto::Plan& plan, TrainerOptions* options) {
  if (!options->run.trace().empty() || options->runtime.backend != nullptr) return;
  options->runtime.trace = true;
  options->runtime.trace_events_per_stream =
      std::min(kMostWatched, kStepsWatched * MostFiringsOfStream(plan));
}

Took TookOfRun(const Runtime& runtime, const StepTimes& times) {
  Took took;
  times.Sum(&took);
  took.use = MeasureUse(runtime.TraceEvents(), MakeTraceFacts(runtime.plan()));
  took.devices = runtime.ranks();
  // Process 0, which alone asks, has the first ranks.
  for (int rank = 0; rank < runtime.ranks(); ++rank) {
    took.device_bytes = std::max(took.device_bytes, runtime.ArenaBytes(rank));
  }
  return took;
}

}  // namespace oneflow
