// The calls that `oneflow calibrate` times: every kernel that the definitions of ops list, on the
// samples of its row, at a few sizes. Together they are the shape classes of the cost model
// (oneflow_core/cost/kernel_cost.h): it interpolates between them.
#pragma once

#include <vector>

#include "planning/measure/timed_op.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Calls of one form and type, the smallest first.
using Ladder = std::vector<TimedOp>;

// f32 and bf16, from tensors in the nearest cache to tensors in none. Not boxing, but `slice`: a
// copy.
std::vector<Ladder> CallsToTime(proto::DeviceKind device);

}  // namespace oneflow
