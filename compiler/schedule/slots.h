// How many slots each register needs under the program's orders.
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Sets `slots` of the program's own registers:
//   as many as one of the streams that touch it holds at once, in its order: what is written and
//   not yet returned; and one more, to be fetched ahead, where another stream than compute writes
//   for a reader elsewhere; of control registers no fewer than they have.
// If a step cannot complete with these (streams that wait for each other), the registers that block
// get one slot more at a time. So the result is live if the orders themselves are; VerifyLiveness
// reports it if they are not.
absl::Status SetSlots(const proto::Plan& plan, proto::Program* program);

}  // namespace oneflow
