#include "compiler/passes/mesh_part.h"

#include <algorithm>
#include <utility>

#include "compiler/passes/rewrite.h"

namespace oneflow {
namespace {

class PartBuilder {
 public:
  PartBuilder(const Graph& graph, const std::optional<SubMesh>& sub_mesh)
      : graph_(graph),
        sub_mesh_(sub_mesh),
        op_in_part_(graph.ops.size(), -1),
        tensor_in_part_(graph.tensors.size(), -1) {}

  MeshPart Build(const std::vector<GradientMirror>& mirrors) {
    part_.graph.name = graph_.name;
    part_.graph.mesh = sub_mesh_ ? sub_mesh_->mesh : graph_.mesh;
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (Inside(graph_.ops[id])) AddOp(id);
    }
    SetOps(&part_.graph, std::move(ops_));
    AddOutputs();
    for (const GradientMirror& mirror : mirrors) AddMirror(mirror);
    return std::move(part_);
  }

 private:
  bool Inside(const Op& op) const { return op.sub_mesh == sub_mesh_; }

  TensorId AddTensor(TensorId t) {
    part_.graph.tensors.push_back(graph_.tensors[t]);
    part_.tensor.push_back(t);
    return tensor_in_part_[t] = static_cast<TensorId>(part_.tensor.size()) - 1;
  }

  // An input in the place of what another mesh makes. What is prepared there is there at any time.
  TensorId StandIn(TensorId t) {
    const Op& producer = graph_.ProducerOf(t);
    Op op;
    op.kind = "input";
    op.name = graph_.tensors[t].name + " from " + producer.name;
    op.phase = std::max(producer.phase, Phase::kForward);
    const TensorId stand_in = AddTensor(t);
    Tensor& tensor = part_.graph.tensors[stand_in];
    tensor.output = 0;
    tensor.constraint.clear();
    op.outputs = {stand_in};
    ops_.push_back(std::move(op));
    part_.op.push_back(-1);
    return stand_in;
  }

  void AddOp(OpId id) {
    Op op = graph_.ops[id];
    for (TensorId& t : op.inputs) t = tensor_in_part_[t] >= 0 ? tensor_in_part_[t] : StandIn(t);
    for (TensorId& t : op.outputs) t = AddTensor(t);
    op_in_part_[id] = static_cast<OpId>(ops_.size());
    ops_.push_back(std::move(op));
    part_.op.push_back(id);
  }

  void AddOutputs() {
    std::vector<TensorId> seen = graph_.outputs;
    if (graph_.loss >= 0) seen.push_back(graph_.loss);
    for (const Op& op : graph_.ops) {
      if (!Inside(op)) seen.insert(seen.end(), op.inputs.begin(), op.inputs.end());
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    for (const TensorId t : seen) {
      if (Inside(graph_.ProducerOf(t))) part_.graph.outputs.push_back(tensor_in_part_[t]);
    }
  }

  void AddMirror(GradientMirror mirror) {
    if (tensor_in_part_[mirror.of] < 0 || !Inside(graph_.ProducerOf(mirror.grad))) return;
    if (mirror.reader >= 0 && op_in_part_[mirror.reader] < 0) return;
    mirror.of = tensor_in_part_[mirror.of];
    mirror.grad = tensor_in_part_[mirror.grad];
    if (mirror.reader >= 0) mirror.reader = op_in_part_[mirror.reader];
    part_.mirrors.push_back(mirror);
  }

  const Graph& graph_;
  const std::optional<SubMesh>& sub_mesh_;
  std::vector<OpId> op_in_part_;
  std::vector<TensorId> tensor_in_part_;
  std::vector<Op> ops_;
  MeshPart part_;
};

}  // namespace

std::vector<std::optional<SubMesh>> MeshesOf(const Graph& graph) {
  std::vector<std::optional<SubMesh>> meshes = {std::nullopt};
  for (const Op& op : graph.ops) {
    if (std::find(meshes.begin(), meshes.end(), op.sub_mesh) == meshes.end()) {
      meshes.push_back(op.sub_mesh);
    }
  }
  return meshes;
}

MeshPart PartOnMesh(const Graph& graph, const std::optional<SubMesh>& sub_mesh,
                    const std::vector<GradientMirror>& mirrors) {
  return PartBuilder(graph, sub_mesh).Build(mirrors);
}

}  // namespace oneflow
