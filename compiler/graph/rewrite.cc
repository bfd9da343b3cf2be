#include "compiler/graph/rewrite.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

void SetOps(Graph* graph, std::vector<Op> ops) {
  for (Tensor& tensor : graph->tensors) tensor.producer = -1;
  graph->ops = std::move(ops);
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const Op& op = graph->ops[id];
    for (int i = 0; i < static_cast<int>(op.outputs.size()); ++i) {
      Tensor& tensor = graph->tensors[op.outputs[i]];
      CHECK_EQ(tensor.producer, -1) << tensor.name << " has two producers";
      tensor.producer = id;
      tensor.output = i;
    }
  }
  for (const Tensor& tensor : graph->tensors) {
    CHECK_GE(tensor.producer, 0) << tensor.name << " lost its producer";
  }
}

std::vector<TensorId> ReplaceOps(Graph* graph, std::vector<Op> ops, std::vector<TensorId> gone) {
  std::sort(gone.begin(), gone.end());
  std::vector<TensorId> renamed(graph->tensors.size(), -1);
  std::vector<Tensor> kept;
  for (TensorId t = 0; t < static_cast<TensorId>(renamed.size()); ++t) {
    if (std::binary_search(gone.begin(), gone.end(), t)) continue;
    renamed[t] = static_cast<TensorId>(kept.size());
    kept.push_back(std::move(graph->tensors[t]));
  }
  graph->tensors = std::move(kept);
  for (Op& op : ops) {
    for (TensorId& t : op.inputs) t = renamed[t];
    for (TensorId& t : op.outputs) t = renamed[t];
  }
  for (TensorId& t : graph->outputs) t = renamed[t];
  if (graph->loss >= 0) graph->loss = renamed[graph->loss];
  SetOps(graph, std::move(ops));
  return renamed;
}

TensorId AddTensor(Graph* graph, std::string name) {
  graph->tensors.emplace_back();
  graph->tensors.back().name = std::move(name);
  return static_cast<TensorId>(graph->tensors.size()) - 1;
}

absl::Status InferOutputs(Graph* graph, const Op& op) {
  const OpDef* def = FindOpDef(op);
  CHECK(def != nullptr) << op.name << ": no op of kind " << op.kind;
  auto specs = def->infer(OpView{*graph, op});
  if (!specs.ok()) return Annotate(specs.status(), op.name);
  CHECK_EQ(specs->size(), op.outputs.size()) << op.name;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    Tensor& tensor = graph->tensors[op.outputs[i]];
    tensor.shape = (*specs)[i].shape;
    tensor.dtype = (*specs)[i].dtype;
  }
  return absl::OkStatus();
}

std::string FreeName(const Graph& graph, std::string_view wish) {
  std::string name(wish);
  for (int i = 2; graph.FindOp(name) != nullptr; ++i) {
    name = std::string(wish) + "." + std::to_string(i);
  }
  return name;
}

bool IsVariable(const Op& op) { return op.kind == "variable"; }

std::string VariableName(const Op& op) { return AttrString(op, "variable", op.name); }

bool DerivesFromVariable(const Op& op) { return IsVariable(op) || op.phase == Phase::kPrepare; }

bool CastsForUse(const Graph& graph, const Op& op) {
  return op.kind == "cast" && !IsOnceAStep(op.phase) && IsVariable(graph.Producer(op.inputs[0]));
}

namespace {

// The variable from which `producer` prepares something; null if there is none.
const Op* FindVariable(const Graph& graph, const Op& producer) {
  if (!DerivesFromVariable(producer) && !CastsForUse(graph, producer)) return nullptr;
  const Op* root = &producer;
  while (!IsVariable(*root)) {
    if (root->inputs.empty()) return nullptr;  // what a step's data say ahead
    root = &graph.Producer(root->inputs[0]);
  }
  return root;
}

}  // namespace

bool SharesGathers(const Graph& graph, const Op& producer) {
  const Op* variable = FindVariable(graph, producer);
  return variable != nullptr && AttrBool(*variable, "gather_shared");
}

bool GathersOnce(const Graph& graph, const Op& producer, int axis) {
  const Op* root = FindVariable(graph, producer);
  if (root == nullptr) return false;
  const std::vector<int> once = FindAxes(graph, *root, "gather_once");
  return std::find(once.begin(), once.end(), axis) != once.end();
}

std::vector<int> FindAxes(const Graph& graph, const Op& variable, std::string_view attr) {
  const std::vector<std::string> names =
      absl::StrSplit(AttrString(variable, attr), ',', absl::SkipEmpty());
  const auto named = [&](std::string_view axis) {
    return std::find(names.begin(), names.end(), axis) != names.end();
  };
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(graph.mesh.axes.size()); ++axis) {
    const std::string_view name = graph.mesh.axes[axis].name;
    if (named(name) || named(name.substr(0, name.rfind('.')))) axes.push_back(axis);
  }
  return axes;
}

int64_t TensorBytes(const Tensor& tensor) {
  return tensor.shape.elements() * static_cast<int64_t>(ElementBytes(tensor.dtype));
}

}  // namespace oneflow
