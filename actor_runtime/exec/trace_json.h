// Chrome/Perfetto JSON of a trace (trace_events.h): a process for each device, a thread for each
// track, an event a line. It is for small traces and for scripts; trace_perfetto.h is compact.
//
//   std::string json = TraceJson({&part, 1}, /*processes=*/1, MakeTraceFacts(plan));
#pragma once

#include <span>
#include <string>

#include "actor_runtime/exec/trace_facts.h"
#include "proto/trace.pb.h"

namespace oneflow {

std::string TraceJson(std::span<const proto::ProcessTrace> parts, int processes = 1,
                      const TraceFacts& facts = {});

}  // namespace oneflow
