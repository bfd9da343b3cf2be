// DeviceMemory: the arena of one rank, and where the plan put things in it: persistent registers,
// then the registers of the running program, workspaces among them.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/arena.h"
#include "proto/plan.pb.h"

namespace oneflow {

class DeviceMemory {
 public:
  // Maps exactly the bytes that the plan gives a device of `stage`. Requires a plan that passed
  // VerifyPlanTypes: that all registers lie inside is proved there.
  static absl::StatusOr<DeviceMemory> Create(const proto::Plan& plan, int stage);

  // Place 0 of a register of this stage; the others follow (oneflow_core/plan/places.h). Null for a
  // control register.
  absl::StatusOr<std::byte*> Find(const proto::Register& reg) const;
  int64_t bytes() const { return arena_.bytes(); }

 private:
  Arena arena_;
  proto::MemoryKind kind_ = proto::DEVICE;
};

}  // namespace oneflow
