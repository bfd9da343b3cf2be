// Devices that sum up each other's gradients are kept in step: each hears that its own partial sums
// have been read, and their bytes take what comes next. Nothing else tells it before the next step,
// for all that peers read of each other in the update was written in the backward. The price is
// that they wait for the slowest of them not once in the update, but after each of the large sums.
//
//   U: a.all_reduce, a.read, a.read_by_peers, b.all_reduce, ...
//   a.read_by_peers of a device waits for a.read of its peers: its own part of a is over then
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Puts two actors without a kernel into each stage's update, one that tells and one that hears,
// whenever a fiftieth of all bytes that peers read there has been read: at most fifty pairs, and as
// many on any number of devices. No data pass.
void KeepUpdateInStep(Lowered* lowered);

}  // namespace oneflow
