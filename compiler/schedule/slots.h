// How many slots each register needs under the program's orders.
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Sets `slots` of the program's own registers:
//   read on the stream that writes it   exactly the fills that are written and not yet returned
//   when
//                                       the stream runs in its order;
//   read on other streams or stages     the most that any of its streams holds at once, and one
//   more
//                                       that can be written meanwhile.
// Where that is not enough to go through a step (streams that wait for each other), the registers
// that block get one slot more at a time, so the result is live if the orders themselves are;
// VerifyLiveness tells if they are not.
absl::Status SetSlots(const proto::Plan& plan, proto::Program* program);

}  // namespace oneflow
