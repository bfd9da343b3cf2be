// Keeps copies between the device's memory and the host's (move_to_host.h) from running too far
// ahead, or behind.
//
//   in    as gathers (prefetch.h): the copies of a use wait until compute has left the use d + 1
//         before it; those of an update begin when the backward is over
//   out   compute waits with what use k copies out until use k - (d + 1) of the task is copied, or,
//         for the first ones, the last ones of the micro-batch before
//
// So at most d + 1 uses of a task take the device's memory for the link. A use of an update is some
// variables one after the other: one, or small ones together.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Adds the control registers of lowered->copies_out and copies_in, and brings copies into the order
// in which compute, which must be final, writes and needs what they move. `ahead`: d, at least 1.
void BoundCopies(int ahead, Lowered* lowered);

}  // namespace oneflow
