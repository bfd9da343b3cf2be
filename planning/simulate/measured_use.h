// MeasuredUse: the utilization of a traced run: the same quantities that FindUtilization computes
// for a simulated run.
//
//   std::optional<MeasuredUse> use = MeasureUse(runtime.TraceEvents(), MakeTraceFacts(plan));
//
// If all members of an exchange are in the process, it counts from when the last one has entered;
// else from when this device has, so its wait for other processes counts as exchange.
#pragma once

#include <cstdint>
#include <optional>

#include "actor_runtime/exec/trace_facts.h"
#include "planning/simulate/utilization.h"
#include "proto/trace.pb.h"

namespace oneflow {

struct MeasuredUse {
  int64_t first_step = 0, steps = 0;  // that were looked at
  double step_seconds = 0;            // of one step
  DeviceTime mean;                    // of a step, over the devices of the process
  double bubble = 0;                  // as Utilization::bubble
};

// Uses the first run of program "train" in the trace: all its steps but the first and the last, or
// all if these are fewer than three. Returns nothing if none was traced.
std::optional<MeasuredUse> MeasureUse(const proto::ProcessTrace& trace, const TraceFacts& facts);

}  // namespace oneflow
