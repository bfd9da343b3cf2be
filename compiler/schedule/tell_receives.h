// What a stage receives may lie where that lay which it has sent, and what it sends is over long
// before what comes back for it is there. But no message of that leaves the other device: a token
// from the send tells the receive, and with it whoever reads what was received.
//
//   forward, backward   from the last send of a micro-batch to the first receive of the same stage
//   and
//                       chunk, from the stage that it was sent to; the receive of one micro-batch
//                       may wait for the send of one some turns before
//   update              from each large send to the first receive after it
//
// Who comes after whom, and how many turns later, is read off a play by the clock: so there is a
// legal order in which no receive waits for a token, and the tokens cost no time where that order
// is kept.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/lower/lowered.h"

namespace oneflow {

// Adds control registers, with slots enough that no send waits for one in that play. `seconds`: of
// a firing, by actor. Requires orders and slots of as many micro-batches as show the steady state.
absl::Status TellReceives(const proto::Plan& plan, const std::vector<double>& seconds,
                          Lowered* lowered);

}  // namespace oneflow
