#include "actor_runtime/exec/device_memory.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<DeviceMemory> DeviceMemory::Create(const proto::Plan& plan, int stage) {
  const proto::StageMemory& memory = plan.memory(stage);
  DeviceMemory device;
  device.kind_ = memory.kind();
  ASSIGN_OR_RETURN(device.arena_, Arena::Create(memory.arena_bytes()));
  return device;
}

absl::StatusOr<std::byte*> DeviceMemory::Find(const proto::Register& reg) const {
  if (reg.slot_bytes() == 0) return nullptr;
  if (reg.memory_kind() != kind_) {
    return InputError(
        absl::StrCat("plan, register ", reg.name()),
        absl::StrCat("lies in memory of kind ", proto::MemoryKind_Name(reg.memory_kind()),
                     ", of which stage ", reg.stage(), " has no arena"),
        "compile it again");
  }
  return arena_.data() + reg.offset();
}

}  // namespace oneflow
