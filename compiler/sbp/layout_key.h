// What a choice of layouts depends on, as bytes; and layouts as bytes. Part of infer_sbp.
#pragma once

#include <string>

#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/known_layouts.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Equal keys: InferSbp does the same. Not in it: stages, chunks and blocks of ops, what is
// recomputed, and the texts that only `explain` prints.
std::string LayoutKey(const Graph& graph, const SbpOptions& options);

PackedLayouts Pack(const Graph& graph, const SbpChoice& choice);
// Requires a graph with the key for which they were packed. Fills in Tensor::sbp.
SbpChoice Unpack(const PackedLayouts& layouts, Graph* graph);

}  // namespace oneflow
