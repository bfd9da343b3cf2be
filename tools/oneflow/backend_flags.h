// The devices that a plan runs on, as the flags say.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/device_backend.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Nothing for a plan of CPUs. For one of GPUs those of this machine: --cuda_libs,
// --logical_devices; UNAVAILABLE, in one sentence, where there are none.
absl::StatusOr<std::optional<DeviceBackend>> BackendFromFlags(const proto::Plan& plan);

}  // namespace oneflow
