// Chrome/Perfetto JSON of the events that processes have traced or the simulator has predicted: a
// process for each device ("stage 0, rank 1"), a track for each stream, a slice for each firing, an
// arrow for each fill that went to another stream, and arrows between processes: from the send, or
// from the member that entered last, to the members that waited for it; a counter of bytes in use
// for each device; a mark where each device begins a step.
//
//   std::string json = TraceJson({&part, 1}, /*processes=*/1, MakeTraceFacts(plan));
//
// A slice's category is its part of a step ("forward"), or its program's name if no facts are
// known; its arguments are the program, the step, the micro-batch, the firing, and bytes.
//
// Predicted parts are separate processes, "predicted: stage 0", on the same time axis.
//
// It is a pure function. Parts may come from other processes: inconsistent events in them are left
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

// `processes`: the number of processes; the JSON names those whose part is missing.
std::string TraceJson(std::span<const proto::ProcessTrace> parts, int processes = 1,
                      const TraceFacts& facts = {});

// When devices began a step of a program, on the common clock: the first firing of it that is not
// the host's; nothing if none was traced. Predicted parts do not count.
std::optional<int64_t> StepBegin(std::span<const proto::ProcessTrace> parts,
                                 std::string_view program, int64_t step);

}  // namespace oneflow
