// Checks that checkpoints hold what a plan trains: a plan that saves too little, or too much, would
// train until its first checkpoint, and lose the steps.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Checks that a plan with a program "train" and one of "init", "save" and "load" has all of them.
absl::Status VerifyStatePrograms(const proto::Plan& plan);

// 1. "save" saves each variable once, from one of its registers; of replicas, the first alone along
//    each axis that does not split it.
// 2. "init" and "load" fill every slot of every register of every variable.
// Checks nothing of other programs. Requires kernels that suit their actors (VerifyKernels).
absl::Status VerifyStates(const PlanNet& net);

}  // namespace oneflow
