// Descent over a ChoiceNetwork that was too large to be solved: single moves, then joint ones. Part
// of infer_sbp.
#pragma once

#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// Takes the cheapest that is found from any of `starts`, where that is cheaper; choices->bound
// stays. Deterministic.
void Descend(const ChoiceNetwork& network, std::vector<std::vector<int>> starts, Choices* choices);

}  // namespace oneflow
