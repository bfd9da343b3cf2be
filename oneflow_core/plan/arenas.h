// The arenas of a plan, and which of them holds a register. Each device has one arena in its own
// memory. Where that is not the host's memory, each device has a second arena, in pinned host
// memory. Plan.memory lists the device arenas of all stages first, then the pinned ones.
#pragma once

#include <cstdint>

#include "proto/plan.pb.h"

namespace oneflow {

inline bool HasHostArenas(const proto::Plan& plan) { return plan.device_kind() != proto::CPU; }

inline int ArenaCount(const proto::Plan& plan, int stages) {
  return HasHostArenas(plan) ? 2 * stages : stages;
}

// Index in Plan.memory.
inline int ArenaIndex(proto::MemoryKind kind, int stage, int stages) {
  return kind == proto::HOST_PINNED ? stages + stage : stage;
}
inline int ArenaIndex(const proto::Register& r, int stages) {
  return ArenaIndex(r.memory_kind(), r.stage(), stages);
}

// Stages of a plan. Requires planned memory.
inline int StageCount(const proto::Plan& plan) {
  return HasHostArenas(plan) ? plan.memory_size() / 2 : plan.memory_size();
}

// Bytes of the stage's pinned arena; 0 if there is none.
inline int64_t HostArenaBytes(const proto::Plan& plan, int stage) {
  const int arena = ArenaIndex(proto::HOST_PINNED, stage, StageCount(plan));
  return HasHostArenas(plan) ? plan.memory(arena).arena_bytes() : 0;
}

}  // namespace oneflow
