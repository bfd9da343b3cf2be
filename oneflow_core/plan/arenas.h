// The arenas of a plan, and which of them a register lies in. Each stage has one of its devices'
// own memory. Where that is not the host's, each has one of pinned host memory, too; they come
// after those of all stages in Plan.memory.
#pragma once

#include <cstdint>

#include "proto/plan.pb.h"

namespace oneflow {

inline bool HasHostArenas(const proto::Plan& plan) { return plan.device_kind() != proto::CPU; }

inline int ArenasOf(const proto::Plan& plan, int stages) {
  return HasHostArenas(plan) ? 2 * stages : stages;
}

// Index in Plan.memory.
inline int ArenaOf(proto::MemoryKind kind, int stage, int stages) {
  return kind == proto::HOST_PINNED ? stages + stage : stage;
}
inline int ArenaOf(const proto::Register& r, int stages) {
  return ArenaOf(r.memory_kind(), r.stage(), stages);
}

// Of a plan whose arenas have been laid.
inline int StagesOf(const proto::Plan& plan) {
  return HasHostArenas(plan) ? plan.memory_size() / 2 : plan.memory_size();
}

// 0 where there is none.
inline int64_t HostArenaBytes(const proto::Plan& plan, int stage) {
  const int arena = ArenaOf(proto::HOST_PINNED, stage, StagesOf(plan));
  return HasHostArenas(plan) ? plan.memory(arena).arena_bytes() : 0;
}

}  // namespace oneflow
