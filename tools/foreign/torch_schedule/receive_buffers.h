// The bytes that PyTorch takes for a pipeline's receives beyond a plan's. A stage of PyTorch has a
// buffer for each micro-batch of a step, from its first step on, of what it receives from the stage
// before and of the gradient from the next one; a plan has as many as its order has in transit.
//
//   ReceiveBytesBeyond(plan)[1]    // 6 MiB: 8 micro-batches, of which the plan keeps 2
#pragma once

#include <cstdint>
#include <vector>

#include "proto/plan.pb.h"

namespace oneflow {

// By stage, of a device. Counts tensors as the plan sends them: their types and layouts.
std::vector<int64_t> ReceiveBytesBeyond(const proto::Plan& plan);

}  // namespace oneflow
