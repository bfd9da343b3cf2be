// Where every register lies: one arena a stage, persistent registers first, then those of the
// programs (which take the same bytes, since one program runs at a time), workspaces among them.
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Sets all offsets and plan->memory. Registers share bytes where their lifetimes on the compute
// stream do not meet; within that, first fit, largest first. Requires orders and slots.
absl::Status PlanMemory(int stages, proto::Plan* plan);

// An input error (code RESOURCE_EXHAUSTED) when an arena is larger than `capacity` bytes (0: no
// limit): by how much, and the registers that take most.
absl::Status CheckCapacity(const proto::Plan& plan, int64_t capacity);

}  // namespace oneflow
