// The part of a graph that computes on one mesh, as a graph of its own: so that infer_sbp can
// choose on each mesh as if there were no other. What crosses is sbp_crossings.h's. Part of
// infer_sbp.
#pragma once

#include <optional>
#include <vector>

#include "compiler/passes/differentiate.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/sub_mesh.h"

namespace oneflow {

// The meshes that ops of the graph compute on, the whole one first.
std::vector<std::optional<SubMesh>> MeshesOf(const Graph& graph);

// What comes from another mesh is an input, what is read on another is an output.
struct MeshPart {
  Graph graph;
  std::vector<OpId> op;          // of the whole graph, for each op; -1: an input that stands in
  std::vector<TensorId> tensor;  // likewise
  std::vector<GradientMirror> mirrors;
};
MeshPart PartOnMesh(const Graph& graph, const std::optional<SubMesh>& sub_mesh,
                    const std::vector<GradientMirror>& mirrors);

}  // namespace oneflow
