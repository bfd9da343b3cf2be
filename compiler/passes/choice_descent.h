// Descent over a ChoiceNetwork that was too large to be solved: single moves, then joint ones, from
// the labels that its bound came with and from two others. Part of infer_sbp.
#pragma once

#include "compiler/passes/choice_network.h"

namespace oneflow {

// Lowers choices->cost where it can; choices->bound stays. Deterministic.
void Descend(const ChoiceNetwork& network, Choices* choices);

}  // namespace oneflow
