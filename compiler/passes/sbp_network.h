// The choice of signatures on ONE mesh axis as a ChoiceNetwork: a variable for each unit, terms for
// what its ops compute and for what boxing each tensor takes, in picoseconds of a step on a device.
// Part of infer_sbp.
#pragma once

#include "compiler/passes/choice_network.h"
#include "compiler/passes/infer_sbp.h"
#include "compiler/passes/sbp_units.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

inline constexpr double kCostsASecond = 1e12;

// `units` are those of `graph`, `settled`, `options` and `axis`; variable i is unit i, those beyond
// are helpers.
ChoiceNetwork SbpNetwork(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                         int axis, const SbpUnits& units);

}  // namespace oneflow
