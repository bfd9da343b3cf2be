// The arenas of a plan, and the one that holds a register. Each device has one arena in its own
// memory. A GPU has a second one in memory of the host (pinned), for data that the host reads and
// writes and for data that moves there. A CPU device has a second one if the plan moves something
// there. Plan.memory lists the device arenas of all stages first, then those of the host.
#pragma once

#include <algorithm>
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

// Bytes of the largest arena in a device's own memory.
inline int64_t MostDeviceBytes(const proto::Plan& plan) {
  int64_t most = 0;
  for (const proto::StageMemory& memory : plan.memory()) {
    if (memory.kind() == proto::DEVICE) most = std::max(most, memory.arena_bytes());
  }
  return most;
}

// Bytes of the stage's arena in host memory; 0 if there is none.
inline int64_t HostArenaBytes(const proto::Plan& plan, int stage) {
  const int arena = ArenaIndex(proto::HOST, stage, StageCount(plan));
  return HasHostArenas(plan) ? plan.memory(arena).arena_bytes() : 0;
}

// True if data that a device's kernels compute with rests in the host's memory. Data that only
// passes through the host does not count. Requires planned memory.
inline bool RestsOnHost(const proto::Plan& plan) {
  if (plan.device_kind() == proto::CPU) return HasHostArenas(plan);
  const auto on_host = [](const proto::Register& r) { return r.memory_kind() == proto::HOST; };
  const auto offloads = [](const proto::Stream& stream) {
    return stream.name() == "offload.out" || stream.name() == "offload.in";
  };
  return std::any_of(plan.persistent().begin(), plan.persistent().end(), on_host) ||
         std::any_of(plan.program().begin(), plan.program().end(), [&](const auto& program) {
           return std::any_of(program.stream().begin(), program.stream().end(), offloads);
         });
}

}  // namespace oneflow
