// A trace (trace_events.h) in Perfetto's own format, compact: names are interned, moments are
// differences, packets are compressed. A track for each device, and below it one for each stream
// and each counter; a flow leaves at the begin of a slice, and arrives at the begin of another, or
// at its end if its moment is later.
//
//   std::string bytes = TracePerfetto({&part, 1}, /*processes=*/1, MakeTraceFacts(plan));
//
// Beside the bytes it holds the flows and a few thousand packets, not the packets of the trace.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "actor_runtime/exec/trace_facts.h"
#include "proto/trace.pb.h"

namespace oneflow {

std::string TracePerfetto(std::span<const proto::ProcessTrace> parts, int processes = 1,
                          const TraceFacts& facts = {});

// What a file of that name has: JSON if it ends in .json, else Perfetto's format.
std::string TraceFileBytes(std::string_view path, std::span<const proto::ProcessTrace> parts,
                           int processes, const TraceFacts& facts);

}  // namespace oneflow
