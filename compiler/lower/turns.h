// An order in which the actors of an update may fire, before there are streams: each after those
// that it reads of, and after those before it in its lane.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// By actor: its turn; -1: it is not of the tasks. `backward`: with the backward of stages that have
// one chunk and one backward task, in front of the update; requires one micro-batch. The lanes of
// copies between device and host keep no order here.
std::vector<int> FindTurns(const Lowered& lowered, bool backward);

// True if a stage has one backward task: no chunks, and no W.
bool HasOneBackward(const Lowered& lowered, int stage);

}  // namespace oneflow
