// --cluster, --system, --memory and --reserve.
#pragma once

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// The cluster to compile for, which has the devices of the mesh. Without --cluster a made-up CPU
// that says nothing of its rates (oneflow_core/cost/kernel_cost.h), whose devices share --threads.
absl::StatusOr<proto::Cluster> ClusterFromFlags(const Arguments& args, const Mesh& mesh);

// --cluster, read and checked; without it the one that the plan was compiled for. With
// --processes, where they are given. An input error where neither knows the rates of a plan's GPUs.
absl::StatusOr<proto::Cluster> ClusterToSimulate(const Arguments& args, const proto::Plan& plan);

// Gives the device the memory of --memory and --reserve, where they are given.
absl::Status SetMemory(proto::Device* device);

// True if ClusterToSimulate knows rates of the plan's kind of devices, or refuses --system.
bool HasRates(const Arguments& args, const proto::Plan& plan);

}  // namespace oneflow
