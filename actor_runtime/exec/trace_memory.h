// The bytes of the devices of a traced run that are in use over time: a buffer is in use from the
// begin of the firing that starts to fill it to the end of the last firing that reads it.
//
// Only registers of the program count, in the device's memory or in its host's; persistent ones are
// always in use, and workspaces are not counted. Fills that nobody in the trace reads to the end
// stay in use.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "actor_runtime/exec/net.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct TraceEvent;

// By concrete actor and firing.
using TracedFirings = std::map<std::pair<int32_t, int64_t>, const TraceEvent*>;

// By rank: moments, in order, and the bytes in use from then on; up to `known`, after which firings
// may be missing. Requires the plan of the net.
std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> TracedMemory(
    const proto::Plan& plan, const ActorNet& net, const TracedFirings& firings, int64_t known,
    proto::MemoryKind kind);

}  // namespace oneflow
