// Copies that other stages' updates need are held back until this stage's backward is over. Sooner
// they would take bytes beside everything that the backward still holds; later, the bytes that it
// has left (tied embeddings: one gradient of the table). The price is that such a copy, one a step,
// does not overlap the backward.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Joins, in each stage that has both, the first copy of the update to the end of the backward: an
// actor at the head of the stage's update fills a control register, one before the copy reads it.
// No data pass, and no kernel runs.
void HoldBackUpdateCopies(Lowered* lowered);

}  // namespace oneflow
