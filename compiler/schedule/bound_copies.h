// Keeps copies between the device's memory and the host's (move_to_host.h) from running too far
// ahead or behind.
//
//   in    as gathers (prefetch.h): the copies of a use wait until compute has left the use d + 1
//         before it; those of an update begin when the backward is over
//   out   compute writes the data that use k copies out only when the data of use k - (d + 1) of
//         the task, or for the first ones of the last ones of the micro-batch before, is copied
//
// So at most d + 1 uses of a task take the device's memory for the link. A use of an update is some
// variables one after the other: one, or small ones together.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Adds the control registers of lowered->copies_out and copies_in. Brings copies into the order in
// which compute, which must be final, writes and needs their data. `ahead`: d, at least 1.
void BoundCopies(int ahead, Lowered* lowered);

}  // namespace oneflow
