#include "tools/oneflow/cli/cluster_flags.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "oneflow_core/verify/read_plan.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/check_cluster.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_file.h"
#include "tools/oneflow/cli/read_cluster.h"
#include "tools/oneflow/cli/recipe_flags.h"

namespace oneflow {
namespace {

// Reads --cluster, which is given: a name, a cluster file, or a plan.
absl::StatusOr<proto::Cluster> ReadCluster() {
  if (IsPlanFile(FLAGS_cluster)) {
    ASSIGN_OR_RETURN(const proto::Plan plan, ReadPlan(FLAGS_cluster));
    RETURN_IF_ERROR(CheckCluster(plan.cluster(), FLAGS_cluster));
    return plan.cluster();
  }
  ASSIGN_OR_RETURN(const ClusterText file, ReadClusterText(FLAGS_cluster));
  ASSIGN_OR_RETURN(proto::Cluster cluster, ParseCluster(file));
  if (cluster.name().empty()) cluster.set_name(FLAGS_cluster);
  return cluster;
}

// The cluster of all verbs without --cluster.
proto::Cluster DefaultCluster() {
  proto::Cluster cluster;
  cluster.set_name("a CPU of 100 GFLOP/s and 10 GB/s (no --cluster)");
  return cluster;
}

// The numbers of a device as a system sustains them.
absl::Status SetSystem(proto::Cluster* cluster) {
  if (FLAGS_system.empty() || FLAGS_system == cluster->as_system()) return absl::OkStatus();
  double slowdown = 0, known = 1;
  std::vector<std::string> names;
  for (const proto::System& system : cluster->system()) {
    if (system.name() == FLAGS_system) slowdown = system.slowdown();
    if (system.name() == cluster->as_system()) known = system.slowdown();
    names.push_back(system.name());
  }
  const std::string flag = "--system=" + FLAGS_system;
  if (names.empty()) {
    return InputError(flag, cluster->name() + " has no systems whose runs were compared",
                      "leave it out, or give a --cluster that has, such as h100");
  }
  if (slowdown == 0) {
    return InputError(flag, cluster->name() + " has no such system",
                      "it has " + absl::StrJoin(names, ", "));
  }
  proto::Sustained* sustained = cluster->mutable_device()->mutable_sustained();
  const auto apply = [&](double share) { return (share == 0 ? 1 : share) * known / slowdown; };
  sustained->set_compute(apply(sustained->compute()));
  sustained->set_memory(apply(sustained->memory()));
  cluster->set_as_system(FLAGS_system);
  return absl::OkStatus();
}

// --system, --memory and --reserve.
absl::Status SetOthers(proto::Cluster* cluster) {
  RETURN_IF_ERROR(SetSystem(cluster));
  return SetMemory(cluster->mutable_device());
}

}  // namespace

absl::Status SetMemory(proto::Device* device) {
  if (!FLAGS_memory.empty()) {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory=" + FLAGS_memory, FLAGS_memory));
    device->set_memory_bytes(bytes);
  }
  const std::string reserve = "--reserve=" + FLAGS_reserve;
  if (!FLAGS_reserve.empty()) {
    if (device->memory_bytes() == 0) {
      return InputError(reserve, "acts on nothing: the memory of a device is not known",
                        "give --memory, or a cluster that says it");
    }
    int64_t bytes = 0;
    if (FLAGS_reserve != "0") {
      ASSIGN_OR_RETURN(bytes, ParseBytes(reserve, FLAGS_reserve));
    }
    device->set_kept_bytes(bytes);
  }
  if (device->memory_bytes() == 0 || UsableBytes(*device) > 0) return absl::OkStatus();
  return InputError(FLAGS_memory.empty() ? reserve : "--memory=" + FLAGS_memory,
                    absl::StrCat("leaves nothing to a plan: a device has ",
                                 BytesText(device->memory_bytes()), KeptText(KeptBytes(*device))),
                    "give a larger --memory, or --reserve=0 for all of it");
}

absl::StatusOr<proto::Cluster> ClusterFromFlags(const Arguments& args, const Mesh& mesh) {
  proto::Cluster cluster = DefaultCluster();
  if (!FLAGS_cluster.empty()) {
    ASSIGN_OR_RETURN(cluster, ReadCluster());
    RETURN_IF_ERROR(CheckDevices(cluster, mesh));
  } else {
    ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
    cluster.mutable_device()->set_kernel_threads(
        std::max(1, CountThreads(run) / std::max(1, mesh.devices())));
  }
  RETURN_IF_ERROR(SetOthers(&cluster));
  return cluster;
}

bool HasRates(const Arguments& args, const proto::Plan& plan) {
  return args.Given("cluster") || args.Given("system") || plan.device_kind() != proto::CUDA ||
         plan.cluster().device().kind() == proto::Device::CUDA;
}

absl::StatusOr<proto::Cluster> ClusterToSimulate(const Arguments& args, const proto::Plan& plan) {
  proto::Cluster cluster = plan.cluster();
  if (!HasRates(args, plan)) {
    return InputError("--cluster",
                      "is missing: the plan is for GPUs, and says nothing of their rates",
                      "give --cluster=h100, or what `oneflow calibrate "
                      "--device=cuda` measures");
  }
  if (!FLAGS_cluster.empty()) {
    ASSIGN_OR_RETURN(cluster, ReadCluster());
  } else {
    RETURN_IF_ERROR(CheckCluster(cluster, "plan, cluster"));
  }
  RETURN_IF_ERROR(SetOthers(&cluster));
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  if (!run.has_processes()) return cluster;
  return WithProcesses(std::move(cluster), plan, run.processes());
}

}  // namespace oneflow
