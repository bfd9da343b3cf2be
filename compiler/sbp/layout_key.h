// Packs into bytes everything that a choice of layouts depends on, and packs layouts. Part of
// infer_sbp.
#pragma once

#include <string>

#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/known_layouts.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// If keys are equal, InferSbp gives the same result. The key leaves out stages, chunks and blocks
// of ops, recomputation, and the texts that only `explain` prints.
std::string LayoutKey(const Graph& graph, const SbpOptions& options);

PackedLayouts Pack(const Graph& graph, const SbpChoice& choice);
// Fills in Tensor::sbp from packed layouts. Requires a graph with the key for which they were
// packed.
SbpChoice Unpack(const PackedLayouts& layouts, Graph* graph);

}  // namespace oneflow
