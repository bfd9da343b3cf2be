// Checks that a program reads as much data as it states. The number and the size of its
// micro-batches also follow from Plan.train, and from the shapes and firings of the actors that
// bring data in.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// 1. "train" has Plan.train's micro-batches, which make up its batch; "eval" one of that size, and
//    "run" the whole batch. All others have one micro-batch. (Without Plan.train this is not
//    checked.)
// 2. Actors that bring data in (`load_tokens`, `feed`) fire once a micro-batch; `report` once a
//    step, and so does `load_counts`, of sequences as long as those that are loaded.
// 3. Tokens have as many rows as a micro-batch has sequences, and so has each dimension of a feed
//    that the logical graph leaves to the batch.
// 4. All tokens of a program come in one order: labels beside their tokens, and positions
//    (attribute `mirrored`).
// Requires kernels that suit their actors (VerifyKernels).
absl::Status VerifyFeeds(const PlanNet& net);

}  // namespace oneflow
