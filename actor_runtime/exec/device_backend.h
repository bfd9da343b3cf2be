// DeviceBackend: makes asynchronous devices for a process, kernels for them, and the
// carrier of their exchanges. The runtime knows a backend by these functions alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"
#include "actor_runtime/exchange/carrier.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Facts about a device: its name, and how much of its memory is free.
struct DeviceFacts {
  int number = 0;  // ranks that share a device have one number
  std::string name;
  int64_t total_bytes = 0, free_bytes = 0;
};

struct DeviceBackend {
  proto::DeviceKind kind = proto::CPU;
  // The device of a rank of this process; several ranks may share one.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(int rank)> make_device;
  // The current facts of that device, for messages to people; null: unknown.
  std::function<absl::StatusOr<DeviceFacts>(int rank)> facts_of;
  // Makes a kernel that launches on streams of the device. It may copy between memories, too
  // ("copy_in", "copy_out").
  DeviceKernelFactory make_kernel;

  // Carries exchanges of devices that share no memory, in this process and in others. null: all
  // devices share one memory (MakeSharedGpuCarrier).
  std::shared_ptr<Carrier> carrier;
};

}  // namespace oneflow
