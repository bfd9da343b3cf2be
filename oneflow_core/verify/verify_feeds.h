// True if a program takes as much data as it says: what its micro-batches and their size are, says
// Plan.train, too, and so do the shapes and the firings of what brings data in.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// 1. "train" has Plan.train's micro-batches, which make up its batch; "eval" one of that size, and
//    "run" the whole batch. All others have one micro-batch. (A plan without Plan.train has none to
//    be held against.)
// 2. Actors that bring data in (`load_tokens`, `feed`) fire once a micro-batch.
// 3. Tokens have as many rows as a micro-batch has sequences, and so has each dimension of a feed
//    that the logical graph leaves to the batch.
// Requires kernels that suit their actors (VerifyKernels).
absl::Status VerifyFeeds(const PlanNet& net);

}  // namespace oneflow
