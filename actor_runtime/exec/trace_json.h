// Chrome/Perfetto JSON of what processes have traced, or the simulator has: a process for each
// device ("stage 0, rank 1"), a track for each stream, a slice for each firing, an arrow for each
// fill that went to another stream, and arrows between processes: from the send, or from the member
// that entered last, to the members that waited for it; a counter of bytes in use for each device;
// a mark where each device begins a step.
//
//   std::string json = TraceJson({&part, 1}, /*processes=*/1, MakeTraceFacts(plan));
//
// A slice's category is its part of a step ("forward"), or its program's name where nothing is
// known of it; its arguments are the program, the step, the micro-batch, the firing, and bytes.
//
// Predicted parts have processes of their own, "predicted: stage 0", in the same time.
//
// A pure function. Parts may come from other processes: what does not fit together in them is left
// out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "actor_runtime/exec/trace_facts.h"
#include "proto/trace.pb.h"

namespace oneflow {

// `processes`: that there are; of those whose part is not there the JSON says so.
std::string TraceJson(std::span<const proto::ProcessTrace> parts, int processes = 1,
                      const TraceFacts& facts = {});

// When devices began a step of a program, on the clock of all: the first firing of it that is not
// the host's; nothing where none was traced. Predicted parts do not count.
std::optional<int64_t> StepBegin(std::span<const proto::ProcessTrace> parts,
                                 std::string_view program, int64_t step);

}  // namespace oneflow
