#include "planning/search/model_shape.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/file_tensors.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// The number of blocks, if they are those from 0 on without a gap.
int CountShapeBlocks(const proto::Graph& graph) {
  std::vector<bool> seen;
  for (const proto::Op& op : graph.op()) {
    if (!op.has_block() || op.block() < 0 || HasOwnShape(op.kind())) continue;
    if (op.block() >= graph.op_size()) return 0;
    if (op.block() >= static_cast<int>(seen.size())) seen.resize(op.block() + 1);
    seen[op.block()] = true;
  }
  const bool gap = std::find(seen.begin(), seen.end(), false) != seen.end();
  return gap ? 0 : static_cast<int>(seen.size());
}

// The smaller one, of numbers of which 0 is not known.
void TakeLess(int64_t size, int64_t* least) {
  if (*least == 0 || size < *least) *least = size;
}

void AddTensorLimits(const proto::Graph& graph, ModelShape* shape) {
  const absl::StatusOr<Graph> ir = GraphFromProto(graph, graph.name());
  if (!ir.ok()) return;
  const absl::StatusOr<const Family*> family = FindFamily(*ir);
  if (!family.ok() || !*family) return;
  for (const Op& op : ir->ops) {
    if (op.kind != "variable") continue;
    const std::vector<int64_t>& dims = ir->tensors[op.outputs[0]].shape.dims;
    const int rank = static_cast<int>(dims.size());
    for (const TensorSplit& split : (*family)->splits) {
      if (VariableName(split.variable, op.block) != op.name || !split.sbp.split() ||
          split.sbp.dim >= rank) {
        continue;
      }
      if (!split.within_group) {
        TakeLess(dims[split.sbp.dim], &shape->most_tensor);
        continue;
      }
      TakeLess(dims[split.sbp.dim], &shape->groups);
      const Sbp& within = *split.within_group;
      if (within.split() && within.dim < rank) TakeLess(dims[within.dim], &shape->group_heads);
    }
  }
  if (shape->groups > 0) shape->group_heads = std::max<int64_t>(1, shape->group_heads);
}

}  // namespace

ModelShape FindModelShape(const proto::Graph& graph) {
  ModelShape shape{.blocks = CountShapeBlocks(graph), .sequence = FindSequence(graph)};
  std::string table;  // that tokens are looked up in
  for (const proto::Op& op : graph.op()) {
    const auto take_most = [&](const char* name, int64_t* most) {
      const auto found = op.attr().find(name);
      if (found != op.attr().end()) *most = std::max(*most, found->second.i());
    };
    take_most("experts", &shape.experts);
    take_most("choices", &shape.top_k);
    if (op.kind() == "dispatch") {
      take_most("groups", &shape.slot_groups);
      const auto slots = op.attr().find("capacity");
      if (slots != op.attr().end()) shape.slots = slots->second.f();
    }
    if (op.kind() == "embedding" && op.input_size() > 0) table = op.input(0);
  }
  for (const proto::Op& op : graph.op()) {
    if (op.name() != table || op.shape().dim_size() == 0) continue;
    shape.hidden = op.shape().dim(op.shape().dim_size() - 1).size();
  }
  AddTensorLimits(graph, &shape);
  return shape;
}

std::vector<int> FindTensorFactors(const ModelShape& shape, int degree) {
  if (shape.most_tensor > 0 && degree > shape.most_tensor) return {};
  if (shape.groups == 0 || degree <= shape.groups) return {degree};
  if (shape.groups == 1) {
    return degree <= shape.group_heads ? std::vector<int>{degree} : std::vector<int>();
  }
  for (int first = static_cast<int>(shape.groups); first > 1; --first) {
    if (degree % first == 0 && degree / first <= shape.group_heads) return {first, degree / first};
  }
  return {};
}

}  // namespace oneflow
