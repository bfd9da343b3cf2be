// Adds tokens from sends to receives. A received tensor may take the bytes of one that the stage
// has sent, because the send is complete long before the answer to it arrives. But no message says
// so: none leaves the other device. So a control token from the send informs the receive, and
// through it the readers of the received tensor, that the send is complete.
//
//   forward, backward   from the last send of a micro-batch to the first receive of the same
//                       stage and chunk, from the stage that it was sent to; the receive of one
//                       micro-batch may wait for the send of an earlier one
//   update              from each large send to the first receive after it
//
// A play by the clock determines the send that precedes each receive, and by how many turns. So
// there is a legal order in which no receive waits for a token, and tokens cost no time if that
// order is kept.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/lower/lowered.h"

namespace oneflow {

// Adds control registers, with enough slots that no send waits for one in that play. `seconds`: of
// a firing, by actor. Requires orders and slots of as many micro-batches as show the steady state.
absl::Status TellReceives(const proto::Plan& plan, const std::vector<double>& seconds,
                          Lowered* lowered);

}  // namespace oneflow
