#include "actor_runtime/exec/device_memory.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<DeviceMemory> DeviceMemory::Create(const proto::Plan& plan, int stage,
                                                  Device* device) {
  DeviceMemory memory;
  memory.device_ = device;
  for (const proto::StageMemory& planned : plan.memory()) {
    if (planned.stage() != stage) continue;
    Block& block = memory.arenas_[planned.kind()];
    block.bytes = planned.arena_bytes();
    block.planned = true;
    if (device != nullptr) {
      ASSIGN_OR_RETURN(block.data, device->Allocate(planned.kind(), block.bytes));
    } else {
      Arena& owned = memory.owned_[planned.kind()];
      ASSIGN_OR_RETURN(owned, Arena::Create(block.bytes));
      block.data = owned.data();
    }
  }
  return memory;
}

absl::StatusOr<std::byte*> DeviceMemory::Find(const proto::Register& reg) const {
  if (reg.slot_bytes() == 0) return nullptr;
  const bool known = proto::MemoryKind_IsValid(reg.memory_kind());
  if (!known || !arenas_[reg.memory_kind()].planned) {
    return InputError(
        absl::StrCat("plan, register ", reg.name()),
        absl::StrCat("is in memory of kind ",
                     known ? proto::MemoryKind_Name(reg.memory_kind()) : "that is not known",
                     ", of which stage ", reg.stage(), " has no arena"),
        "compile it again");
  }
  return arenas_[reg.memory_kind()].data + reg.offset();
}

}  // namespace oneflow
