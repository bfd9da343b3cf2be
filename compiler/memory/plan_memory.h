// The memory planner: assigns an address to every register. Each stage has one arena: persistent
// registers first, then the registers of the programs, workspaces among them. Programs share the
// same bytes, because one program runs at a time.
#pragma once

#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Sets all offsets and plan->memory. Registers share bytes if their lifetimes on the compute stream
// are disjoint (lifetimes.h); offsets are found by frames (frame_layout.h), buffer rings
// (buffer_rings.h) and first fit (pack.h). Requires orders and slots. CANCELLED if it is stopped.
absl::Status PlanMemory(int stages, proto::Plan* plan, const std::stop_token& stop = {});

// Sets the bytes of variables in plan->memory, and the lower bounds in plan->facts (lower_bound.h),
// but no addresses.
absl::Status BoundMemory(int stages, proto::Plan* plan);

// Lists the registers of a stage that take most, at most five, in one line: "wte (1 x 65,536 bytes
// (64.0 KiB)), ...". Workspaces are left out, because they come and go.
std::string LargestRegisters(const proto::Plan& plan, int stage,
                             proto::MemoryKind kind = proto::DEVICE);

// An input error (code RESOURCE_EXHAUSTED) if an arena is larger than what a plan may take of the
// device (UsableBytes). It says by how much, and names the registers that take most.
absl::Status CheckCapacity(const proto::Plan& plan, const proto::Device& device);

// An input error if the devices of a node of the cluster (oneflow_core/cost/host_memory.h) together
// take more than `capacity` bytes of the host's memory.
absl::Status CheckHostCapacity(const proto::Plan& plan, const proto::Cluster& cluster,
                               int64_t capacity);

}  // namespace oneflow
