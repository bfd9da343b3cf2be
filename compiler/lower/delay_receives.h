// Delays the receives that an update needs from other stages until the stage's own backward is
// over. Earlier, the received tensors would take bytes beside everything that the backward still
// holds; later, they take bytes that it has returned (tied embeddings: one gradient of the table).
// As a drawback, such a receive, one a step, does not overlap the backward.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// In each stage that has both, makes the first receive of the update from each other stage wait for
// the end of the backward. An actor without a kernel at the head of the stage's update fills a
// control register, which those receives read.
void DelayUpdateReceives(Lowered* lowered);

}  // namespace oneflow
