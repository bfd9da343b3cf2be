// DeviceBackend: how a process comes by devices that run by themselves, and by kernels for them.
// The runtime knows one by these functions alone.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"
#include "actor_runtime/kernel/kernel.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct DeviceBackend {
  proto::DeviceKind kind = proto::CPU;
  // The device of a rank of this process; several ranks may share one.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(int rank)> make_device;
  // A kernel that launches on streams of the device; copies between memories, too ("copy_in",
  // "copy_out").
  std::function<absl::StatusOr<Kernel>(Device& device, const KernelSetup& setup)> make_kernel;
};

}  // namespace oneflow
