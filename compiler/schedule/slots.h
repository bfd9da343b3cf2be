// Counts the slots that each register needs under the program's orders.
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Sets `slots` of the program's own registers to the most fills that one of the streams that access
// it holds at once, in its order: written and not yet returned. One more lets a tensor be fetched
// ahead, if another stream than compute writes it for a reader elsewhere. Control registers keep at
// least the slots that they have.
// If a step cannot complete with these, because streams wait for each other, the registers that
// block get one slot more at a time. So the result is live if the orders themselves are;
// VerifyLiveness reports it if they are not.
absl::Status SetSlots(const proto::Plan& plan, proto::Program* program);

}  // namespace oneflow
