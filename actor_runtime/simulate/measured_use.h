// How well a run that was traced used its devices: what FindUtilization says of a simulated run.
//
//   std::optional<MeasuredUse> use = MeasureUse(runtime.TraceEvents(), MakeTraceFacts(plan));
//
// An exchange counts from when its last member has entered, where all members are of the process;
// else from when this device has: then what it waits for others counts as exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actor_runtime/exec/trace_facts.h"
#include "actor_runtime/simulate/utilization.h"
#include "proto/trace.pb.h"

namespace oneflow {

struct MeasuredUse {
  int64_t first_step = 0, steps = 0;  // that were looked at
  double step_seconds = 0;            // of one of them
  DeviceTime mean;                    // of a step, over the devices of the process
  double bubble = 0;                  // as Utilization::bubble
};

// Of program "train": of the first run of it in the trace all steps but the first and the last that
// are there, or all where these are fewer than three. Nothing where none was traced.
std::optional<MeasuredUse> MeasureUse(const proto::ProcessTrace& trace, const TraceFacts& facts);

}  // namespace oneflow
