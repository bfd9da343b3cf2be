// DeviceMemory: the arenas of one rank, and where the plan put things in them: persistent
// registers, then the registers of the running program, workspaces among them.
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
  // Takes exactly the bytes that the plan gives a device of `stage`: of `device`, which must
  // outlive it, or of the host where that is null. Requires a plan that passed VerifyPlanTypes:
  // that all registers lie inside is proved there.
  static absl::StatusOr<DeviceMemory> Create(const proto::Plan& plan, int stage, Device* device);

  // Buffer 0 of a register of this stage; the others follow (oneflow_core/plan/buffers.h). Null for
  // a control register.
  absl::StatusOr<std::byte*> Find(const proto::Register& reg) const;
  // Of the device's own arena.
  int64_t bytes() const { return arenas_[proto::DEVICE].bytes; }

 private:
  struct Block {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    bool planned = false;  // of a kind of memory that the plan has
  };
  Arena arena_;                  // of the host, where there is no device
  std::array<Block, 2> arenas_;  // by memory kind
};

}  // namespace oneflow
