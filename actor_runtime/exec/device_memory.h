// DeviceMemory: the arenas of one rank, and the addresses in them that the plan gives: of
// persistent registers, then of the registers of the running program, including workspaces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"
#include "actor_runtime/exec/arena.h"
#include "proto/plan.pb.h"

namespace oneflow {

class DeviceMemory {
 public:
  // Allocates exactly the bytes that the plan gives a device of `stage`, of each kind of memory: on
  // `device`, which must outlive this, or on the host if `device` is null. Requires a plan that
  // passed VerifyPlanTypes, which proves that all registers fit.
  static absl::StatusOr<DeviceMemory> Create(const proto::Plan& plan, int stage, Device* device);

  // Buffer 0 of a register of this stage; the others follow (oneflow_core/plan/buffers.h). Null for
  // a control register.
  absl::StatusOr<std::byte*> Find(const proto::Register& reg) const;
  Device* device() const { return device_; }  // null: the host
  // Bytes of the device's own arena, and of its arena in the host's memory.
  int64_t bytes() const { return arenas_[proto::DEVICE].bytes; }
  int64_t host_bytes() const { return arenas_[proto::HOST].bytes; }

 private:
  struct Block {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    bool planned = false;  // the plan uses this kind of memory
  };
  Device* device_ = nullptr;
  std::array<Arena, 2> owned_;   // by memory kind, if there is no device
  std::array<Block, 2> arenas_;  // by memory kind
};

}  // namespace oneflow
