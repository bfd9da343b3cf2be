// What a stage receives in the backward of a micro-batch may lie where that lay which it sent in the
// forward: a token tells the receive that the sends are over. It costs no time, for the other stage
// sends its gradient only after it has had what the gradient is of; but no message of that leaves the
// other device.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// A control register from the last send of a micro-batch's forward to the first receive of its
// backward, for each stage and chunk that has both with the same other stage.
void ReceiveAfterSends(Lowered* lowered);

}  // namespace oneflow
