// The calls that `oneflow calibrate` times: each kernel of a training step at a few sizes, from
// tensors in the nearest cache to tensors in none. Together they are the shape classes of the cost
// model (oneflow_core/cost/kernel_cost.h): it interpolates between them.
#pragma once

#include <vector>

#include "tools/measure/kernel_time.h"

namespace oneflow {

// f32 and bf16; there may be no kernel for some of the latter.
std::vector<TimedOp> CallsToTime();

}  // namespace oneflow
