// Finds an order in which the actors of an update may fire, before there are streams. Each comes
// after the actors whose results it reads, and after those before it in its lane.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// Returns the turn of each actor; -1: it is not of these tasks. `backward`: also orders the
// backward, in front of the update, for stages that have one chunk and one backward task; requires
// one micro-batch. The lanes of copies between device and host keep no order here.
std::vector<int> FindTurns(const Lowered& lowered, bool backward);

// True if a stage has one backward task: no chunks, and no W.
bool HasOneBackward(const Lowered& lowered, int stage);

}  // namespace oneflow
