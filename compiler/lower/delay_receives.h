// Delays the receives that an update needs from other stages until the stage's own backward is
// over. Earlier, the received tensors would take bytes beside everything that the backward still
// holds; later, they take bytes that it has returned (tied embeddings: one gradient of the table).
// The price is that such a receive, one a step, does not overlap the backward.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Joins, in each stage that has both, the end of the backward to the first receive of the update
// from each other stage: an actor without a kernel at the head of the stage's update fills a
// control register, which those receives read.
void DelayUpdateReceives(Lowered* lowered);

}  // namespace oneflow
