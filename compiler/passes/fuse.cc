// Fuse: a product and its activation become one op. Its kernel applies the activation to each part
// of the result while the part is in cache. This saves one pass over memory each way, and in the
// backward one tensor:
//
//   y = linear(x, w, b);            z = gelu(y)             ->  y, z = linear(x, w, b; then gelu)
//   dz = linear_grad_input(dy, w);  dx = gelu_grad(dz, x)
//                                             ->  dx = linear_grad_input(dy, w, x; then gelu_grad)
//   y = linear(x, w, b);            z = gated(g, y)
//                                             ->  y, z = linear(x, w, g, b; then gated)
//   dz = linear_grad_input(dy, w);  dg, dx = gated_grad(dz, g, x)
//                                   ->  dg, dx = linear_grad_input(dy, w, g, x; then gated_grad)
//
//   y = linear(x, w, b);            z = add(a, y)           ->  z = linear(x, w, a, b; then add)
//   and so with add_delta, the sum of an adapter
//
//   q, k, v = split_qkv(qkv);         out, lse = attention(q, k, v)
//                                                            ->  out, lse = packed_attention(qkv)
//   dq, dk, dv = attention_grad(dout, q, k, v, out, lse);  dqkv = join_qkv(dq, dk, dv)
//                                              ->  dqkv = packed_attention_grad(dout, qkv, out,
//                                              lse)
//
// The last two save the copies, if nothing else reads q, k or v.
//
// Two ops are fused only if nothing is between them: no boxing, no cast, no other stage, chunk or
// phase. In the backward nothing else may read dz, and dx may be no variable's gradient, because
// only a plain product adds up over the micro-batches. An activation that is recomputed alone stays
// separate, and so does a gated op whose gate is made after the product, or whose activation the
// kernels of products have not (oneflow_core/op/activation.h).
//
// If `row_stats`, for devices that read memory far more slowly than they compute: row_max,
// row_sum_exp and pick of the same logits become one op, row_stats, which reads them once. A
// vocabulary that is split has boxing between the three; they stay separate then.
//
// The kernels give the bits of those that they replace (kernel_test), so fusing changes none.
// `--fuse=false` (Train.no_fusion) leaves it out: to look at kernels one by one, or to predict a
// system that does not fuse.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "compiler/graph/row_stats.h"
#include "oneflow_core/op/activation.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

constexpr char kFusedSum[] = "add";

// True if a product and the first reader of its kind fire together. With boxing there they are on
// one stage; they are of one phase, for what is computed again comes after what it repeats.
bool Together(const Op& product, const Op& reader) { return product.chunk == reader.chunk; }

bool IsOutput(const Graph& graph, TensorId t) {
  return t == graph.loss ||
         std::find(graph.outputs.begin(), graph.outputs.end(), t) != graph.outputs.end();
}

// True unless it is a gated op, or its gradient, whose activation no product's kernel has.
bool IsFused(const Op& op) {
  const auto it = op.attrs.find("activation");
  return it == op.attrs.end() || FindActivation(std::get<std::string>(it->second))->fused;
}

// The gelu of the linear `id`, or the gated op whose second input it is; -1 if there is none to
// fuse it with. A gate must be made before the product.
OpId FindActivation(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  const Op& linear = graph.ops[id];
  if (FormName(linear) != "linear") return -1;
  for (const Use& use : uses[linear.outputs[0]]) {
    const Op& reader = graph.ops[use.op];
    if (!Together(linear, reader)) continue;
    if (reader.kind == "gelu") return use.op;
    if (reader.kind == "gated" && use.input == 1 && IsFused(reader) &&
        graph.tensors[reader.inputs[0]].producer < id) {
      return use.op;
    }
  }
  return -1;
}

// The op of `kind` that alone reads what op `id` gives, at input `input`; -1 if there is none.
OpId OnlyReader(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id,
                std::string_view kind, int input) {
  const Op& product = graph.ops[id];
  const TensorId y = product.outputs[0];
  if (uses[y].size() != 1 || uses[y][0].input != input || IsOutput(graph, y)) return -1;
  const Op& reader = graph.ops[uses[y][0].op];
  return reader.kind == kind && Together(product, reader) ? uses[y][0].op : -1;
}

// True if op `id` adds up over the micro-batches: the gradient of a variable, for the update.
bool AddsUp(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  for (const TensorId output : graph.ops[id].outputs) {
    for (const Use& use : uses[output]) {
      if (graph.ops[use.op].phase == Phase::kUpdate) return true;
    }
  }
  return false;
}

// The op that a product without an output of its own becomes part of; -1 if there is none.
OpId FindSecond(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  const Op& product = graph.ops[id];
  if (FormName(product) == "linear_grad_input") {
    OpId grad = OnlyReader(graph, uses, id, "gelu_grad", 0);
    if (grad < 0) grad = OnlyReader(graph, uses, id, "gated_grad", 0);
    if (grad >= 0 && !IsFused(graph.ops[grad])) return -1;
    return grad >= 0 && !AddsUp(graph, uses, grad) ? grad : -1;
  }
  if (FormName(product) != "linear") return -1;
  OpId add = OnlyReader(graph, uses, id, kFusedSum, 1);
  if (add < 0) add = OnlyReader(graph, uses, id, "add_delta", 1);
  if (add < 0) return -1;
  // Parts of sums are added by add alone.
  const NdSbp& sbp = graph.tensors[graph.ops[add].outputs[0]].sbp;
  if (std::any_of(sbp.begin(), sbp.end(), [](Sbp s) { return s.partial(); })) return -1;
  const DType sum = graph.tensors[graph.ops[add].inputs[0]].dtype;
  const DType added = graph.tensors[product.outputs[0]].dtype;
  return added == sum && added != DType::kBF16 ? add : -1;
}

// The join_qkv that alone reads what the attention_grad `id` gives; -1 if there is none.
OpId FindJoin(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  OpId join = -1;
  for (int i = 0; i < 3; ++i) {
    const TensorId part = graph.ops[id].outputs[i];
    const OpId reader = uses[part].size() == 1 ? uses[part][0].op : -1;
    if (reader < 0 || uses[part][0].input != i || (i > 0 && reader != join)) return -1;
    if (graph.ops[reader].kind != "join_qkv" || IsOutput(graph, part)) return -1;
    join = reader;
  }
  return Together(graph.ops[id], graph.ops[join]) && !AddsUp(graph, uses, join) ? join : -1;
}

// True if all readers of the parts of the split_qkv `id` can read its input instead: attentions,
// and gradients whose results are joined the same way.
bool ReadsPacked(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  const Op& split = graph.ops[id];
  for (int i = 0; i < 3; ++i) {
    if (IsOutput(graph, split.outputs[i])) return false;
    for (const Use& use : uses[split.outputs[i]]) {
      const Op& reader = graph.ops[use.op];
      const bool grad = reader.kind == "attention_grad";
      if (!(grad || reader.kind == "attention") || reader.chunk != split.chunk) return false;
      const int first = grad ? 1 : 0;
      for (int part = 0; part < 3; ++part) {
        if (reader.inputs[first + part] != split.outputs[part]) return false;
      }
      if (!grad) continue;
      const OpId join = FindJoin(graph, uses, use.op);
      if (join < 0 || AttrBool(graph.ops[join], "parts_first") != AttrBool(split, "parts_first")) {
        return false;
      }
    }
  }
  return true;
}

// An attention, or its gradient, that reads the input of `split`.
Op Packed(Op op, const Op& split) {
  const bool grad = op.kind == "attention_grad";
  const auto q = op.inputs.begin() + (grad ? 1 : 0);
  *q = split.inputs[0];
  op.inputs.erase(q + 1, q + 3);
  op.kind = "packed_" + op.kind;
  op.attrs["parts_first"] = AttrBool(split, "parts_first");
  op.why = op.name + " reads queries, keys and values in place of copies by " + split.name;
  return op;
}

Op FusedStats(const Graph& graph, const RowStats& stats) {
  Op op = graph.ops[stats.pick];
  op.kind = "row_stats";
  op.why = op.name + " reads the rows once for their maxima and sums, too";
  op.outputs = {graph.ops[stats.max].outputs[0], graph.ops[stats.sum].outputs[0], op.outputs[0]};
  return op;
}

Op Fused(Op product, const Op& second) {
  product.attrs.insert(second.attrs.begin(), second.attrs.end());
  product.attrs["then"] = second.kind == "add_delta" ? kFusedSum : second.kind;
  product.why = product.name + " and " + second.name + " are one op";
  return product;
}

// The fused op of a product and its only reader, at the position of the reader.
Op FuseInto(const Op& product, const Op& second) {
  Op op = Fused(product, second);
  op.name = second.name;
  std::vector<TensorId> others = second.inputs;
  std::erase(others, product.outputs[0]);
  op.inputs.insert(op.inputs.begin() + 2, others.begin(), others.end());
  op.outputs = second.outputs;
  return op;
}

}  // namespace

std::vector<TensorId> Fuse(Graph* graph, const FuseOptions& options) {
  const std::vector<std::vector<Use>> uses = FindUses(*graph);
  std::vector<OpId> product_of(graph->ops.size(), -1);  // by the op that it becomes part of
  std::vector<bool> gone(graph->ops.size(), false);
  std::map<OpId, RowStats> stats_at;  // by the last of the three
  if (options.row_stats) {
    for (const RowStats& stats : FindRowStats(*graph, uses)) {
      for (const OpId part : {stats.max, stats.sum, stats.pick}) gone[part] = part != stats.last();
      stats_at[stats.last()] = stats;
    }
  }
  std::vector<TensorId> unmade;
  std::map<OpId, OpId> split_of;  // of attentions and their gradients
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    if (graph->ops[id].kind != "split_qkv" || !ReadsPacked(*graph, uses, id)) continue;
    const std::vector<TensorId>& parts = graph->ops[id].outputs;
    gone[id] = true;
    unmade.insert(unmade.end(), parts.begin(), parts.end());
    for (const Use& use : uses[parts[0]]) split_of[use.op] = id;
  }
  std::vector<Op> ops;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    if (gone[id]) continue;
    Op op = graph->ops[id];
    if (const auto stats = stats_at.find(id); stats != stats_at.end()) {
      op = FusedStats(*graph, stats->second);
    } else if (const auto split = split_of.find(id); split != split_of.end()) {
      if (op.kind == "attention_grad") {
        const OpId join = FindJoin(*graph, uses, id);
        gone[join] = true;
        unmade.insert(unmade.end(), op.outputs.begin(), op.outputs.end());
        op.outputs = graph->ops[join].outputs;
      }
      op = Packed(std::move(op), graph->ops[split->second]);
    } else if (const OpId act = FindActivation(*graph, uses, id); act >= 0) {
      const Op& activation = graph->ops[act];
      op = Fused(std::move(op), activation);
      if (activation.kind == "gated") op.inputs.insert(op.inputs.begin() + 2, activation.inputs[0]);
      op.outputs.push_back(activation.outputs[0]);
      gone[act] = true;
    } else if (const OpId second = FindSecond(*graph, uses, id); second >= 0) {
      product_of[second] = id;  // what else it reads may be made only after this
      unmade.push_back(op.outputs[0]);
      continue;
    } else if (product_of[id] >= 0) {
      op = FuseInto(graph->ops[product_of[id]], op);
    }
    ops.push_back(std::move(op));
  }
  return ReplaceOps(graph, std::move(ops), std::move(unmade));
}

}  // namespace oneflow
