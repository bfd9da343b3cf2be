// Local search over a ChoiceNetwork that elimination could not solve exactly: single moves, then
// joint moves. Part of infer_sbp.
#pragma once

#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// Improves `choices` to the cheapest assignment found from any of `starts`, if that is cheaper.
// Does not change choices->bound. Deterministic.
void Descend(const ChoiceNetwork& network, std::vector<std::vector<int>> starts, Choices* choices);

}  // namespace oneflow
