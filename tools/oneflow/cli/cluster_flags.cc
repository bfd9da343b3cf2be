#include "tools/oneflow/cli/cluster_flags.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "oneflow_core/verify/read_plan.h"
#include "planning/simulate/simulate_on.h"
#include "tools/oneflow/cli/check_cluster.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/known_clusters.h"
#include "tools/oneflow/cli/plan_file.h"
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
  proto::Cluster cluster;
  ASSIGN_OR_RETURN(const ClusterText file, ReadClusterText(FLAGS_cluster));
  const absl::Status parsed = ParseText(file.text, file.where, "cluster", &cluster);
  if (absl::StrContains(parsed.message(), ": device is given twice")) {
    return InputError(file.where, "has two kinds of devices",
                      "a cluster has one: write a file for each kind, and compile a plan for each");
  }
  RETURN_IF_ERROR(parsed);
  if (cluster.ByteSizeLong() == 0) {
    return InputError(file.where, "is empty", "say of what device and which links a cluster is");
  }
  RETURN_IF_ERROR(CheckCluster(cluster, file.where));
  if (cluster.name().empty()) cluster.set_name(FLAGS_cluster);
  return cluster;
}

// The cluster of all verbs without --cluster.
proto::Cluster DefaultCluster() {
  proto::Cluster cluster;
  cluster.set_name("a CPU of 100 GFLOP/s and 10 GB/s (no --cluster)");
  return cluster;
}

// --memory, where it is given.
absl::Status SetMemory(proto::Cluster* cluster) {
  if (FLAGS_memory.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory=" + FLAGS_memory, FLAGS_memory));
  cluster->mutable_device()->set_memory_bytes(bytes);
  return absl::OkStatus();
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

// --system and --memory.
absl::Status SetOthers(proto::Cluster* cluster) {
  RETURN_IF_ERROR(SetSystem(cluster));
  return SetMemory(cluster);
}

}  // namespace

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
