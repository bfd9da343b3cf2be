// Opens the devices that a plan runs on, as a run says.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/device_backend.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/gpu_memory.h"
#include "training/trainer/processes/process_group.h"

namespace oneflow {

struct GpuBackend {
  DeviceBackend devices;
  GpuMemory memory;
};

// An input error where the run says what means something on GPUs only.
absl::Status RefuseGpuFlags(const proto::Run& run);

// Nothing for a plan of CPUs, with which choices for GPUs are refused. For one of GPUs those of
// this machine; UNAVAILABLE, in one sentence, where there are none, and an input error where the
// plan does not fit in what is free of their memory. The group, which runs the plan, without
// --logical_devices where there are others, outlives the backend.
absl::StatusOr<std::optional<GpuBackend>> OpenGpus(const proto::Run& run, const proto::Plan& plan,
                                                   ProcessGroup& group);

}  // namespace oneflow
