// The choice of signatures, on one mesh axis or on several at once, as a ChoiceNetwork: a variable
// for each unit, terms for what its ops compute and for what boxing each tensor takes, in
// picoseconds of a step on a device. Boxing on several axes is priced axis by axis, in mesh order,
// each time of what the axes before leave. Part of infer_sbp.
#pragma once

#include <vector>

#include "compiler/passes/choice_network.h"
#include "compiler/passes/infer_sbp.h"
#include "compiler/passes/sbp_labels.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

inline constexpr double kCostsASecond = 1e12;

// `units` are those of `graph`, `settled` and `options`; variable i is unit i, those beyond are
// helpers.
ChoiceNetwork SbpNetwork(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                         const SbpLabels& units);

// A label for every variable of a network, given those of the units: what helpers stand for
// follows.
std::vector<int> CompleteLabels(const ChoiceNetwork& network, std::vector<int> label);

}  // namespace oneflow
