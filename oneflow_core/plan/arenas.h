// The arenas of a plan, and which of them holds a register. Each device has one arena in its own
// memory. A GPU has a second one in memory of the host (pinned), for what the host reads and writes
// and for what moves there; a CPU device has one where the plan moves something there. Plan.memory
// lists the device arenas of all stages first, then those of the host.
#pragma once

#include <cstdint>

#include "proto/plan.pb.h"

namespace oneflow {

// Requires planned memory.
inline bool HasHostArenas(const proto::Plan& plan) {
  return !plan.memory().empty() && plan.memory().rbegin()->kind() == proto::HOST;
}

// Index in Plan.memory.
inline int ArenaIndex(proto::MemoryKind kind, int stage, int stages) {
  return kind == proto::HOST ? stages + stage : stage;
}
inline int ArenaIndex(const proto::Register& r, int stages) {
  return ArenaIndex(r.memory_kind(), r.stage(), stages);
}

// Stages of a plan. Requires planned memory.
inline int StageCount(const proto::Plan& plan) {
  return HasHostArenas(plan) ? plan.memory_size() / 2 : plan.memory_size();
}

// Bytes of the stage's arena in host memory; 0 if there is none.
inline int64_t HostArenaBytes(const proto::Plan& plan, int stage) {
  const int arena = ArenaIndex(proto::HOST, stage, StageCount(plan));
  return HasHostArenas(plan) ? plan.memory(arena).arena_bytes() : 0;
}

}  // namespace oneflow
