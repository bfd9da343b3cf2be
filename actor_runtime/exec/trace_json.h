// Chrome/Perfetto JSON of what processes have traced: a track for each stream, a slice for each
// firing, an arrow for each fill that went to another stream, and arrows between processes: from
// the send, or from the member that entered last, to the members that waited for it.
//
//   std::string json = TraceJson({&parts, 1});
//
// A pure function. Parts may come from other processes: what does not fit together in them is left
// out.
#pragma once

#include <span>
#include <string>

#include "proto/trace.pb.h"

namespace oneflow {

// `processes`: that there are; of those whose part is not there the JSON says so.
std::string TraceJson(std::span<const proto::ProcessTrace> parts, int processes = 1);

}  // namespace oneflow
