#include "oneflow_core/model/annotate_gpt.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/balance_stages.h"
#include "oneflow_core/model/gpt_block.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// "data" and its factors "data.0", "data.1", ...
std::vector<std::string> ListAxes(const Mesh& mesh, const std::string& name) {
  std::vector<std::string> axes;
  for (const Mesh::Axis& axis : mesh.axes) {
    if (axis.name == name || axis.name.starts_with(name + '.')) axes.push_back(axis.name);
  }
  return axes;
}

int CountDevices(const Mesh& mesh, const std::vector<std::string>& axes) {
  int degree = 1;
  for (const std::string& axis : axes) degree *= mesh.axes[mesh.FindAxis(axis)].size;
  return degree;
}

// What is asked of a tensor on an axis, or on the axis it is a factor of; nullptr: nothing.
const Sbp* AskedOn(const Tensor& tensor, const std::string& axis) {
  auto found = tensor.constraint.find(axis);
  if (found == tensor.constraint.end()) {
    found = tensor.constraint.find(axis.substr(0, axis.find('.')));
  }
  return found == tensor.constraint.end() ? nullptr : &found->second;
}

// The user's constraint stays.
void Constrain(Graph* graph, const Op& op, const std::vector<std::string>& axes, Sbp sbp) {
  Tensor* tensor = &graph->tensors[op.outputs[0]];
  for (const std::string& axis : axes) {
    if (AskedOn(*tensor, axis) != nullptr) continue;
    tensor->constraint.emplace(axis, sbp);
    tensor->usual.insert(axis);
  }
}

// The number of blocks; 0 if the graph is no GPT: it has embeddings, and attention in each block.
int CountBlocks(const Graph& graph) {
  if (graph.FindOp("wte") == nullptr || graph.FindOp("wpe") == nullptr) return 0;
  std::vector<bool> seen;
  for (const Op& op : graph.ops) {
    std::string_view rest;
    const int block = ParseBlock(op.name, &rest);
    if (block < 0) continue;
    if (block >= static_cast<int>(graph.ops.size())) return 0;
    if (block >= static_cast<int>(seen.size())) seen.resize(block + 1);
    // A causal_attention, or what ends the unfused ops.
    if (rest == "attn.core" && !HasOwnShape(op.kind)) seen[block] = true;
  }
  const bool all = std::find(seen.begin(), seen.end(), false) == seen.end();
  return all ? static_cast<int>(seen.size()) : 0;
}

// FLOPs of a sequence in the forward: of each block, and of the ops before and after the blocks. If
// the shapes of a graph are inconsistent, all blocks cost the same; a later pass reports the error.
BlockCosts CountFlops(Graph graph, int blocks) {
  for (Tensor& tensor : graph.tensors) {
    for (int64_t& size : tensor.shape.dims) size = std::max<int64_t>(size, 1);  // "batch"
  }
  BlockCosts costs{.blocks = std::vector<double>(blocks, 1)};
  if (!CheckGraph(graph).ok() || !InferShapes(&graph).ok()) return costs;
  bool after = false;
  for (const Op& op : graph.ops) {
    std::string_view rest;
    const int block = ParseBlock(op.name, &rest);
    const auto& flops = FindOpDef(op.kind)->flops;
    const double cost = flops == nullptr || HasOwnShape(op.kind) ? 0 : flops({graph, op});
    (block >= 0 ? costs.blocks[block] : after ? costs.last : costs.first) += cost;
    after = after || block >= 0;
  }
  return costs;
}

// The stage of each block, as the user says.
absl::StatusOr<std::vector<int>> WrittenStages(const std::vector<int>& layers, int blocks,
                                               int stages) {
  const std::string where = "stage_layers " + absl::StrJoin(layers, ",");
  if (static_cast<int>(layers.size()) != stages) {
    return InputError(where, "has " + std::to_string(layers.size()) + " numbers",
                      "write one for each of the " + std::to_string(stages) +
                          " places along the pipe: stages times chunks");
  }
  std::vector<int> stage_of;
  for (int stage = 0; stage < stages; ++stage) {
    const bool end = stage == 0 || stage == stages - 1;
    const std::string gives =
        "gives place " + std::to_string(stage) + ' ' + std::to_string(layers[stage]) + " layers";
    if (layers[stage] < (end ? 0 : 1)) {
      return InputError(where, gives,
                        "use 1 or more; only the first place and the last may have none");
    }
    if (layers[stage] > blocks) {
      return InputError(where, gives, "the model has " + std::to_string(blocks) + " in all");
    }
    stage_of.insert(stage_of.end(), layers[stage], stage);
  }
  if (static_cast<int>(stage_of.size()) == blocks) return stage_of;
  return InputError(where, "adds up to " + std::to_string(stage_of.size()) + " layers",
                    "the model has " + std::to_string(blocks));
}

// The stage of each block, balanced.
absl::StatusOr<std::vector<int>> ChosenStages(const Graph& graph, int blocks, int pipe,
                                              int chunks) {
  if (blocks >= pipe * chunks) return BalancedStages(CountFlops(graph, blocks), pipe * chunks);
  return InputError(
      "pipe=" + std::to_string(pipe) + (chunks > 1 ? ", chunks=" + std::to_string(chunks) : ""),
      "is more stages than the " + std::to_string(blocks) + " layers of \"" + graph.name + "\"",
      chunks > 1 ? "use fewer chunks or stages, or a schedule of one chunk"
                 : "use pipe=" + std::to_string(blocks) + " or less");
}

// What stands before the blocks is on stage 0 (the embedding), what reads of them on the last (the
// head).
void AssignStages(const std::vector<int>& stage_of, int stages, Graph* graph) {
  std::vector<bool> from_block(graph->ops.size());
  for (Op& op : graph->ops) {
    std::string_view rest;
    const int block = ParseBlock(op.name, &rest);
    const bool after = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
      return from_block[&graph->Producer(t) - graph->ops.data()];
    });
    from_block[&op - graph->ops.data()] = after || (block >= 0 && !HasOwnShape(op.kind));
    if (block >= 0 || after) op.stage = block >= 0 ? stage_of[block] : stages - 1;
  }
  const std::vector<std::vector<Use>> uses = FindUses(*graph);
  for (Op& op : graph->ops) {
    if (!HasOwnShape(op.kind) || uses[op.outputs[0]].empty()) continue;
    op.stage = graph->ops[uses[op.outputs[0]].front().op].stage;
  }
}

absl::Status SetStages(Graph* graph, int blocks, int pipe, const AnnotateOptions& options) {
  const std::vector<int>& layers = options.stage_layers;
  const int stages = pipe * options.chunks;
  const bool staged =
      std::any_of(graph->ops.begin(), graph->ops.end(), [](const Op& op) { return op.stage != 0; });
  if (staged && !layers.empty()) {
    return InputError("stage_layers " + absl::StrJoin(layers, ","),
                      "is given, and \"" + graph->name + "\" has stages of its own",
                      "leave one of the two out");
  }
  if (staged || (stages == 1 && layers.empty())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int> stage_of,
                   layers.empty() ? ChosenStages(*graph, blocks, pipe, options.chunks)
                                  : WrittenStages(layers, blocks, stages));
  AssignStages(stage_of, stages, graph);
  return absl::OkStatus();
}

// Of a variable, on tensor axes.
Sbp TensorParallelSbp(std::string_view name) {
  struct Row {
    std::string_view name;
    Sbp sbp;
  };
  constexpr Row kOutside[] = {{"wte", S(0)}, {"head.weight", S(0)}};
  constexpr Row kInBlock[] = {{"attn.qkv.weight", S(2)},  {"attn.qkv.bias", S(1)},
                              {"attn.proj.weight", S(0)}, {"mlp.fc.weight", S(1)},
                              {"mlp.fc.bias", S(0)},      {"mlp.proj.weight", S(0)}};
  std::string_view rest;
  if (ParseBlock(name, &rest) < 0) {
    for (const Row& row : kOutside) {
      if (row.name == name) return row.sbp;
    }
    return B();
  }
  for (const Row& row : kInBlock) {
    if (row.name == rest) return row.sbp;
  }
  return B();
}

// Each part gets at least one head and one word.
absl::Status CheckDegree(const Graph& graph, int degree) {
  for (const Op& op : graph.ops) {
    if (op.kind != "variable") continue;
    const Sbp sbp = TensorParallelSbp(op.name);
    const Tensor& tensor = graph.tensors[op.outputs[0]];
    if (!sbp.split() || sbp.dim >= tensor.shape.rank()) continue;
    const int64_t parts = tensor.shape.dims[sbp.dim];
    if (parts >= degree) continue;
    const std::string what = tensor.shape.names.empty() || tensor.shape.names[sbp.dim].empty()
                                 ? "dimension " + std::to_string(sbp.dim)
                                 : tensor.shape.names[sbp.dim];
    return InputError("tensor=" + std::to_string(degree),
                      "is more parts than the " + std::to_string(parts) + " of " + what + " in \"" +
                          op.name + "\" " + ToString(tensor.shape),
                      "use tensor=" + std::to_string(parts) + " or less");
  }
  return absl::OkStatus();
}

// Whether an op's result is of the shape of the residual stream: between blocks, or about to be
// added to it. The dropout inside of attention is not.
bool IsOfStream(const Op& op) {
  if (op.kind == "add" || op.kind == "positional_embedding") return true;
  std::string_view rest;
  const bool inside = ParseBlock(op.name, &rest) >= 0 && rest.starts_with("attn.core.");
  return !inside && (op.kind == "dropout" || op.kind == "stored_dropout");
}

// The dimension of a variable that `parts` devices split best, the first of equals, of those that
// are long enough and that no constraint splits but on the axes of `but`; B if there is none.
Sbp BestSplit(const Tensor& tensor, const std::vector<std::string>& but, int64_t parts) {
  Sbp best = B();
  double least = 0;  // of what is split so, the share of the device that has most
  for (int d = 0; d < tensor.shape.rank(); ++d) {
    const int64_t size = tensor.shape.dims[d];
    const bool split =
        std::any_of(tensor.constraint.begin(), tensor.constraint.end(), [&](const auto& on) {
          return on.second == S(d) && std::find(but.begin(), but.end(), on.first) == but.end();
        });
    if (split || size < parts) continue;
    const double most = static_cast<double>((size + parts - 1) / parts) / static_cast<double>(size);
    if (!best.split() || most < least) best = S(d), least = most;
  }
  return best;
}

// Variables split over the data axes, each gathered as `shard` says.
void ShardVariables(const Mesh& mesh, const std::vector<std::string>& data,
                    AnnotateOptions::Shard shard, Graph* graph) {
  for (Op& op : graph->ops) {
    if (op.kind != "variable") continue;
    const Tensor& tensor = graph->tensors[op.outputs[0]];
    Constrain(graph, op, data, BestSplit(tensor, data, CountDevices(mesh, data)));
    std::vector<std::string> split;
    std::copy_if(data.begin(), data.end(), std::back_inserter(split),
                 [&](const std::string& axis) { return AskedOn(tensor, axis)->split(); });
    if (split.empty() || shard == AnnotateOptions::kWeights) continue;
    op.attrs.emplace("gather_once", absl::StrJoin(split, ","));
  }
}

void ConstrainGpt(Graph* graph, const std::vector<std::string>& data,
                  const std::vector<std::string>& tensor, const AnnotateOptions& options) {
  for (const Op& op : graph->ops) {
    if (op.kind == "variable") {
      Constrain(graph, op, tensor, TensorParallelSbp(op.name));
      if (options.shard == AnnotateOptions::kNone) Constrain(graph, op, data, B());
    } else if (op.kind == "input" || IsOfStream(op)) {
      Constrain(graph, op, data, S(0));
      if (!options.split_positions || op.kind == "input") Constrain(graph, op, tensor, B());
    }
  }
}

void ConstrainInputs(Graph* graph, const std::vector<std::string>& data) {
  for (const Op& op : graph->ops) {
    if (op.kind != "input") continue;
    const std::vector<std::string>& names = graph->tensors[op.outputs[0]].shape.names;
    if (!names.empty() && names[0] == "batch") Constrain(graph, op, data, S(0));
  }
}

}  // namespace

absl::Status AnnotateGpt(Graph* graph, const Mesh& mesh, const AnnotateOptions& options) {
  const std::vector<std::string> data = ListAxes(mesh, "data"), tensor = ListAxes(mesh, "tensor");
  const int blocks = CountBlocks(*graph);
  if (blocks == 0) {
    if (!options.stage_layers.empty()) {
      return InputError("stage_layers " + absl::StrJoin(options.stage_layers, ","),
                        "counts the layers of a GPT, and \"" + graph->name + "\" is none",
                        "write `stage` into the graph");
    }
    ConstrainInputs(graph, data);
  } else {
    RETURN_IF_ERROR(CheckDegree(*graph, CountDevices(mesh, tensor)));
    RETURN_IF_ERROR(SetStages(graph, blocks, mesh.stages(), options));
    ConstrainGpt(graph, data, tensor, options);
  }
  if (options.shard != AnnotateOptions::kNone) ShardVariables(mesh, data, options.shard, graph);
  return absl::OkStatus();
}

}  // namespace oneflow
