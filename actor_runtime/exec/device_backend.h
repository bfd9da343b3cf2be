// DeviceBackend: makes asynchronous devices for a process, kernels for them, and communicators
// between them. The runtime knows a backend by these functions alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exchange/exchange_work.h"
#include "actor_runtime/kernel/kernel.h"
#include "proto/plan.pb.h"

namespace oneflow {

// One member's part of an exchange.
struct MemberExchange {
  const std::vector<std::vector<KernelSetup>>& setups;  // as ExchangeWork::Make gets them
  int member = 0;
  bool accumulates = false;     // it may accumulate into its outputs
  int64_t workspace_bytes = 0;  // that the plan gives it
};

// Devices whose exchanges one communicator carries.
struct DeviceGroup {
  std::string name;              // the same in all processes; no other group has it, in no run
  std::vector<Device*> devices;  // by member; null: in another process
  int communicators = 1;         // that a device of this process is in, at most
  // By member of this process: those that it exchanges single messages with. Empty: nobody.
  std::vector<std::set<int>> peers = {};
};

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
  std::function<absl::StatusOr<Kernel>(Device& device, const KernelSetup& setup)> make_kernel;

  // Exchanges through a library, between devices that share no memory, in this process and in
  // others. If both are null, all devices share one memory, and MakeStreamCommunicator is used.
  // make_communicator is called for the same groups in the same order in all processes, and returns
  // when all have called it.
  std::function<absl::StatusOr<MemberLaunch>(Device& device, const MemberExchange& exchange)>
      make_launch;
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const DeviceGroup& group)>
      make_communicator;
};

}  // namespace oneflow
