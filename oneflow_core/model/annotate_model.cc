#include "oneflow_core/model/annotate_model.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/balance_stages.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/moved_bias.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// "data" and its factors "data.0", "data.1", ...; of all names, in the order of the mesh.
std::vector<std::string> ListAxes(const Mesh& mesh, const std::vector<std::string>& names) {
  std::vector<std::string> axes;
  for (const Mesh::Axis& axis : mesh.axes) {
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return axis.name == name || axis.name.starts_with(name + '.');
    });
    if (named) axes.push_back(axis.name);
  }
  return axes;
}

bool HasAxis(const std::vector<std::string>& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
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

// The number of blocks; 0 if the graph has none, or not those from 0 on without a gap.
int CountBlocks(const Graph& graph) {
  std::vector<bool> seen;
  for (const Op& op : graph.ops) {
    if (op.block < 0 || HasOwnShape(op.kind)) continue;
    if (op.block >= static_cast<int>(graph.ops.size())) return 0;
    if (op.block >= static_cast<int>(seen.size())) seen.resize(op.block + 1);
    seen[op.block] = true;
  }
  const bool all = std::find(seen.begin(), seen.end(), false) == seen.end();
  return all ? static_cast<int>(seen.size()) : 0;
}

// FLOPs of a sequence in the forward: of each block, and of the ops before and after them. If
// shapes are inconsistent, these cost nothing; a later pass reports the error.
BlockCosts CountFlops(Graph graph, int blocks) {
  for (Tensor& tensor : graph.tensors) {
    for (int64_t& size : tensor.shape.dims) size = std::max<int64_t>(size, 1);  // "batch"
  }
  BlockCosts costs{.blocks = std::vector<double>(blocks, 1)};
  if (!CheckGraph(graph).ok() || !InferShapes(&graph).ok()) return costs;
  costs.blocks.assign(blocks, 0);
  bool after = false;
  for (const Op& op : graph.ops) {
    const auto& flops = FindOpDef(op)->flops;
    const double cost = flops == nullptr || HasOwnShape(op.kind) ? 0 : flops({graph, op});
    (op.block >= 0 ? costs.blocks[op.block] : after ? costs.last : costs.first) += cost;
    after = after || op.block >= 0;
  }
  return costs;
}

// The blocks of each slice along the pipe: as the user says, or balanced.
absl::StatusOr<std::vector<int>> FindSlices(const Graph& graph, int blocks, int pipe,
                                            const std::vector<int>& layers, int chunks) {
  const int stages = pipe * chunks;
  if (layers.empty() && blocks >= stages) {
    return BalancedSlices(CountFlops(graph, blocks), pipe, chunks);
  }
  if (layers.empty()) {
    return InputError(
        "pipe=" + std::to_string(pipe) + (chunks > 1 ? ", chunks=" + std::to_string(chunks) : ""),
        "is more stages than the " + std::to_string(blocks) + " layers of \"" + graph.name + "\"",
        chunks > 1 ? "use fewer chunks or stages, or a schedule of one chunk"
                   : "use pipe=" + std::to_string(blocks) + " or less");
  }
  const std::string where = "--stage_layers=" + absl::StrJoin(layers, ",");
  if (static_cast<int>(layers.size()) != stages) {
    return InputError(where, "has " + std::to_string(layers.size()) + " numbers",
                      "write one for each of the " + std::to_string(stages) +
                          " places along the pipe: stages times chunks");
  }
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
  }
  const int sum = std::accumulate(layers.begin(), layers.end(), 0);
  if (sum == blocks) return layers;
  return InputError(where, "adds up to " + std::to_string(sum) + " layers",
                    "the model has " + std::to_string(blocks));
}

// The embedding, before the blocks, is on stage 0; what reads of them, the head, on the last.
void AssignStages(const std::vector<int>& stage_of, int stages, Graph* graph) {
  std::vector<bool> from_block(graph->ops.size());
  for (Op& op : graph->ops) {
    const bool after = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
      return from_block[&graph->Producer(t) - graph->ops.data()];
    });
    from_block[&op - graph->ops.data()] = after || (op.block >= 0 && !HasOwnShape(op.kind));
    if (op.block >= 0 || after) op.stage = op.block >= 0 ? stage_of[op.block] : stages - 1;
  }
  const std::vector<std::vector<Use>> uses = FindUses(*graph);
  for (Op& op : graph->ops) {
    if (!HasOwnShape(op.kind) || uses[op.outputs[0]].empty()) continue;
    op.stage = graph->ops[uses[op.outputs[0]].front().op].stage;
  }
}

absl::Status SetStages(Graph* graph, int blocks, int pipe, const std::vector<int>& layers,
                       int chunks) {
  const int stages = pipe * chunks;
  const bool staged =
      std::any_of(graph->ops.begin(), graph->ops.end(), [](const Op& op) { return op.stage != 0; });
  if (staged && !layers.empty()) {
    return InputError("--stage_layers=" + absl::StrJoin(layers, ","),
                      "is given, and \"" + graph->name + "\" has stages of its own",
                      "leave one of the two out");
  }
  if (staged || (stages == 1 && layers.empty())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int> slices, FindSlices(*graph, blocks, pipe, layers, chunks));
  std::vector<int> stage_of;
  for (int s = 0; s < stages; ++s) stage_of.insert(stage_of.end(), slices[s], s);
  AssignStages(stage_of, stages, graph);
  return absl::OkStatus();
}

// The axes `tensor`: those that split groups of heads, or all heads where there are no groups, and
// those that split the query heads of a group.
struct TensorAxes {
  std::vector<std::string> all, of_groups, within_groups;
};

std::optional<TensorSplit> FindSplit(const Graph& graph, const Family& family, const Op& op) {
  if (op.kind != "variable") return std::nullopt;
  for (const TensorSplit& split : family.splits) {
    if (VariableName(split.variable, op.block) == op.name) return split;
  }
  return FindAdapterSplit(family, graph, op);
}

// A dimension of a variable that tensor axes split.
struct SplitDim {
  const Op* op = nullptr;
  const Tensor* tensor = nullptr;
  int dim = 0;
  int64_t size() const { return tensor->shape.dims[dim]; }
  std::string Text() const {
    const std::vector<std::string>& names = tensor->shape.names;
    const std::string what =
        names.empty() || names[dim].empty() ? "dimension " + std::to_string(dim) : names[dim];
    return std::to_string(size()) + " of " + what + " in \"" + op->name + "\" " +
           ToString(tensor->shape);
  }
};

// The shortest dimensions that split groups, and query heads of a group; none in a model whose
// heads are not grouped.
struct GroupedHeads {
  std::optional<SplitDim> groups, heads;
};

GroupedHeads FindGroupedHeads(const Graph& graph, const Family& family) {
  GroupedHeads found;
  const auto take = [](const SplitDim& dim, std::optional<SplitDim>* shortest) {
    if (dim.dim >= dim.tensor->shape.rank()) return;
    if (!*shortest || dim.size() < (*shortest)->size()) *shortest = dim;
  };
  for (const Op& op : graph.ops) {
    const std::optional<TensorSplit> split = FindSplit(graph, family, op);
    if (!split || !split->within_group || IsAdapterName(op.name)) continue;
    const Tensor& tensor = graph.tensors[op.outputs[0]];
    take({&op, &tensor, split->sbp.dim}, &found.groups);
    if (split->within_group->split()) take({&op, &tensor, split->within_group->dim}, &found.heads);
  }
  return found;
}

// "write tensor=8x2, ...": the first factor splits as many groups as can be.
std::string FactorsText(int64_t degree, int64_t groups, int64_t heads) {
  for (int64_t first = std::min(groups, degree); first > 1; --first) {
    if (degree % first != 0 || degree / first > heads) continue;
    return "write --mesh=tensor=" + std::to_string(first) + 'x' + std::to_string(degree / first) +
           ": the first factor splits the groups, the second the query heads of each";
  }
  return "use tensor=" + std::to_string(groups) +
         " or less, or two factors, of the groups and of the " + std::to_string(heads) +
         " query heads of each";
}

// Each device gets a group, and a query head of it.
absl::StatusOr<TensorAxes> AssignTensorAxes(const Graph& graph, const Family& family,
                                            const Mesh& mesh) {
  TensorAxes axes{.all = ListAxes(mesh, {"tensor"})};
  std::sort(axes.all.begin(), axes.all.end());  // by factor: a mesh may have them in any order
  const GroupedHeads grouped = FindGroupedHeads(graph, family);
  if (!grouped.groups) {
    axes.of_groups = axes.all;
    return axes;
  }
  const int64_t groups = grouped.groups->size(), heads = grouped.heads ? grouped.heads->size() : 1;
  int64_t parts = 1, parts_within = 1;
  for (const std::string& axis : axes.all) {
    const int64_t size = mesh.axes[mesh.FindAxis(axis)].size;
    const bool splits_groups = axes.within_groups.empty() && parts * size <= groups;
    (splits_groups ? parts : parts_within) *= size;
    (splits_groups ? axes.of_groups : axes.within_groups).push_back(axis);
  }
  if (parts_within == 1 || ((parts > 1 || groups == 1) && parts_within <= heads)) return axes;
  const int64_t degree = parts * parts_within;
  return InputError("tensor=" + std::to_string(degree),
                    "is more parts than the " + grouped.groups->Text(),
                    FactorsText(degree, groups, heads));
}

// Each part gets an element of every dimension that all axes split: a head, a word.
absl::Status CheckDegree(const Graph& graph, const Family& family, int degree) {
  for (const Op& op : graph.ops) {
    const std::optional<TensorSplit> split = FindSplit(graph, family, op);
    const Tensor& tensor = graph.tensors[op.outputs[0]];
    if (!split || split->within_group || !split->sbp.split()) continue;
    if (split->sbp.dim >= tensor.shape.rank()) continue;
    const SplitDim dim{&op, &tensor, split->sbp.dim};
    if (dim.size() >= degree) continue;
    return InputError("tensor=" + std::to_string(degree), "is more parts than the " + dim.Text(),
                      "use tensor=" + std::to_string(dim.size()) + " or less");
  }
  return absl::OkStatus();
}

// By op, true if its result is of the shape of the residual stream: it enters the first block, is
// between blocks, or is dropped out before it is added to the stream.
std::vector<bool> FindStream(const Graph& graph) {
  const std::vector<Precision> kAdds = {Precision::kStream, Precision::kToStream};
  std::vector<bool> stream(graph.ops.size(), false);
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    const OpDef* adder = FindOpDef(op);
    const bool adds = adder != nullptr && adder->precision == kAdds;
    if (adds || (adder != nullptr && adder->positions == Positions::kTable)) stream[id] = true;
    for (const TensorId t : op.inputs) {
      const Op& from = graph.Producer(t);
      const OpDef* def = FindOpDef(from);
      const bool drops = adds && def != nullptr && def->random;
      const bool enters = op.block >= 0 && from.block < 0 && !HasOwnShape(from.kind);
      if (drops || enters) stream[graph.tensors[t].producer] = true;
    }
  }
  return stream;
}

// The dimension of a variable that `parts` devices split best, the first of equals, of those that
// are long enough and that no constraint splits but on the axes of `but`; B if there is none.
Sbp BestSplit(const Tensor& tensor, const std::vector<std::string>& but, int64_t parts) {
  Sbp best = B();
  double least = 0;  // of what is split so, the share of the device that has most
  for (int d = 0; d < tensor.shape.rank(); ++d) {
    const int64_t size = tensor.shape.dims[d];
    const bool split =
        std::any_of(tensor.constraint.begin(), tensor.constraint.end(),
                    [&](const auto& on) { return on.second == S(d) && !HasAxis(but, on.first); });
    if (split || size < parts) continue;
    const double most = static_cast<double>((size + parts - 1) / parts) / static_cast<double>(size);
    if (!best.split() || most < least) best = S(d), least = most;
  }
  return best;
}

// What the user asks of a tensor on an axis; nullptr: nothing.
const Sbp* AskedByUser(const Tensor& tensor, const std::string& axis) {
  return tensor.usual.find(axis) == tensor.usual.end() ? AskedOn(tensor, axis) : nullptr;
}

// Writes the attributes of all variables. The user's constraints win: on an axis where a variable
// is B nothing of it is split; where it is split, it is so for its readers, too, but for a gather.
void ShardVariables(const Mesh& mesh, const std::vector<std::string>& all, const Sharding& shard,
                    proto::Gather gather, Graph* graph) {
  using Axes = std::vector<std::string>;
  // All devices need all of a bias that a rule moves, and it has no states that could be split.
  std::set<OpId> replicated;
  for (const Op& op : graph->ops) {
    const TensorId bias = FindMovedBias(op);
    if (bias >= 0) replicated.insert(graph->tensors[bias].producer);
  }
  for (Op& op : graph->ops) {
    const Tensor& tensor = graph->tensors[op.outputs[0]];
    if (op.kind != "variable" || replicated.contains(tensor.producer)) continue;
    // Without those on which it is split by its experts.
    Axes data;
    std::copy_if(all.begin(), all.end(), std::back_inserter(data), [&](const std::string& axis) {
      const Sbp* asked = AskedOn(tensor, axis);
      return asked == nullptr || !asked->split() || AskedByUser(tensor, axis) != nullptr;
    });
    const int parts = CountDevices(mesh, data);
    if (parts == 1) continue;
    const auto set = [&](const char* attr, const auto& wanted) {
      Axes axes;
      std::copy_if(data.begin(), data.end(), std::back_inserter(axes), wanted);
      if (!axes.empty()) op.attrs.emplace(attr, absl::StrJoin(axes, ","));
    };
    const auto free = [&](const std::string& axis) { return AskedByUser(tensor, axis) == nullptr; };
    const auto of = [&](const Axes& axes) {
      return [&](const std::string& axis) { return HasAxis(axes, axis) && free(axis); };
    };
    const Sbp split = BestSplit(tensor, data, parts);
    const Axes& rests = IsFrozen(op) ? shard.frozen : shard.states;
    const Axes& each = IsFrozen(op) ? shard.frozen : shard.weights;  // gathered for each use
    set("reduced", [&](const std::string& axis) {
      // When a gradient is reduced is the same for all variables, split or not.
      if (IsFrozen(op) || (!free(axis) && AskedByUser(tensor, axis)->split())) return false;
      return HasAxis(shard.reduced, axis) ||
             (HasAxis(shard.gradients, axis) && (!split.split() || !free(axis)));
    });
    if (split.split()) {
      op.attrs.emplace("split_dim", static_cast<int64_t>(split.dim));
      set("states", of(rests));
      if (!IsFrozen(op)) set("gradients", of(shard.gradients));
    }
    // Weights at rest are whole on all other axes of states.
    const bool once = gather == proto::ONCE;
    set("gather_once", [&](const std::string& axis) {
      const bool splits = free(axis) ? split.split() : AskedOn(tensor, axis)->split();
      return splits && HasAxis(rests, axis) && (once || !HasAxis(each, axis));
    });
    if (gather == proto::EACH_MICRO_BATCH && !each.empty()) op.attrs["gather_shared"] = true;
  }
}

// What reads the weight of a mixture of experts is computed where its experts lie.
void ConstrainReaders(Graph* graph, TensorId weight, const std::vector<std::string>& axes,
                      Sbp sbp) {
  for (const Op& op : graph->ops) {
    if (std::find(op.inputs.begin(), op.inputs.end(), weight) == op.inputs.end()) continue;
    Constrain(graph, op, axes, sbp);
  }
}

int64_t CountExperts(const Graph& graph, const Family& family) {
  for (const Op& op : graph.ops) {
    const std::optional<TensorSplit> split = FindSplit(graph, family, op);
    if (!split || !split->by_expert) continue;
    return graph.tensors[op.outputs[0]].shape.dims[split->by_expert->dim];
  }
  return 0;
}

// The axes that split experts; the groups of a mixture without a capacity are their parts.
absl::StatusOr<std::vector<std::string>> SplitExperts(const Mesh& mesh, const Family& family,
                                                      const std::string& wanted, Graph* graph) {
  const std::vector<std::string> axes = ListAxes(mesh, {wanted.empty() ? "expert" : wanted});
  const int64_t parts = CountDevices(mesh, axes), experts = CountExperts(*graph, family);
  if (wanted.empty() && (axes.empty() || experts == 0)) return std::vector<std::string>();
  const std::string where = wanted.empty() ? "mesh axis expert" : "--experts=" + wanted;
  if (axes.empty()) {
    return InputError(where, "is no axis of the mesh " + ToString(mesh),
                      "use expert, data, or a factor of it: data.1 of --mesh=data=2x4");
  }
  if (experts == 0) {
    return InputError(where, "splits experts, and \"" + graph->name + "\" has none",
                      "leave it out");
  }
  for (Op& op : graph->ops) {
    if (!HasGroups(op)) continue;
    const bool own = AttrDouble(op, "capacity") > 0 || op.attrs.contains("groups");
    const int64_t groups = own ? AttrInt(op, "groups", 1) : experts;
    if (groups % parts != 0) {
      const bool may_be = own && experts % parts == 0;
      return InputError(
          absl::StrCat(where, " of ", parts, " parts"),
          absl::StrCat("does not divide the ", groups,
                       own ? " groups of experts of \"" : " experts of \"", op.name, "\""),
          absl::StrCat("use a divisor",
                       may_be ? absl::StrCat(", or a model with --slot_groups=", parts) : ""));
    }
    if (!own) op.attrs["groups"] = parts;
    op.attrs["parts"] = parts;
  }
  return axes;
}

// The axes that split tokens: the batch, and positions.
struct TokenAxes {
  std::vector<std::string> batch, positions;

  std::vector<std::string> Both() const {
    std::vector<std::string> both = batch;
    both.insert(both.end(), positions.begin(), positions.end());
    return both;
  }
};

void ConstrainModel(Graph* graph, const Family& family, const TokenAxes& tokens,
                    const std::vector<std::string>& experts, const TensorAxes& tensor,
                    bool split_positions) {
  const std::vector<bool> stream = FindStream(*graph);
  for (const Op& op : graph->ops) {
    if (op.kind == "variable") {
      const std::optional<TensorSplit> split = FindSplit(*graph, family, op);
      if (split && split->by_expert) {
        Constrain(graph, op, experts, *split->by_expert);
        ConstrainReaders(graph, op.outputs[0], experts, *split->by_expert);
      }
      const Sbp sbp = !split ? B() : split->sbp;
      Constrain(graph, op, tensor.of_groups, sbp);
      Constrain(graph, op, tensor.within_groups, !split ? B() : split->within_group.value_or(sbp));
      Constrain(graph, op, tokens.Both(), B());
    } else if (op.kind == "input" || stream[&op - graph->ops.data()]) {
      Constrain(graph, op, tokens.batch, S(0));
      Constrain(graph, op, tokens.positions, S(1));
      if (!split_positions || op.kind == "input") Constrain(graph, op, tensor.all, B());
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

absl::Status AnnotateModel(Graph* graph, const Mesh& mesh, const proto::Recipe& recipe,
                           int chunks) {
  const std::vector<int> layers(recipe.stage_layers().layers().begin(),
                                recipe.stage_layers().layers().end());
  ASSIGN_OR_RETURN(const Family* const family, FindFamily(*graph));
  const int blocks = family ? CountBlocks(*graph) : 0;
  const bool mixture = family && CountExperts(*graph, *family) > 0;
  TokenAxes tokens{.batch = ListAxes(mesh, {"data"})};
  if (mixture) tokens.batch = ListAxes(mesh, {"data", "expert"});
  if (blocks == 0) {
    if (!layers.empty()) {
      return InputError("--stage_layers=" + absl::StrJoin(layers, ","),
                        "counts the layers of a model, and \"" + graph->name + "\" has none",
                        "write `stage` into the graph");
    }
    ConstrainInputs(graph, tokens.batch);
  } else {
    tokens.positions = ListAxes(mesh, {"context"});
    ASSIGN_OR_RETURN(const TensorAxes tensor, AssignTensorAxes(*graph, *family, mesh));
    RETURN_IF_ERROR(CheckDegree(*graph, *family, CountDevices(mesh, tensor.all)));
    RETURN_IF_ERROR(SetStages(graph, blocks, mesh.stages(), layers, chunks));
    ASSIGN_OR_RETURN(const std::vector<std::string> experts,
                     SplitExperts(mesh, *family, recipe.experts(), graph));
    ConstrainModel(graph, *family, tokens, experts, tensor, recipe.sequence_parallel());
  }
  const bool has_frozen =
      std::any_of(graph->ops.begin(), graph->ops.end(), [](const Op& op) { return IsFrozen(op); });
  ASSIGN_OR_RETURN(const Sharding shard, OnMesh(recipe, mesh, has_frozen));
  ShardVariables(mesh, tokens.Both(), shard, recipe.gather(), graph);
  return absl::OkStatus();
}

}  // namespace oneflow
