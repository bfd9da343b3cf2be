// Recompute: forward ops of a scope (Op::recompute) are recomputed in the backward, so that their
// outputs need not be kept in between (Chen et al. 2016; Korthikanti et al. 2022).
//
// The clones of a scope stand together in the backward, before the first op there that reads one of
// them. Readers in the backward read the clones. The clones read the inputs of the scope, which are
// kept.
//
// An output of a scope is a tensor that another forward op reads. It is kept if recomputing it is
// expensive. Expensive is an op of more than kDear operations for each element it writes, such as a
// matrix product, that nothing else in the scope needs. So a block as a scope keeps its output,
// which the next block keeps as its input anyway; a gelu as its own scope does not.
//
// An op that decides (OpDef::decides), such as the router's choice, has no clone. Its outputs are
// kept, even if the ops before it are recomputed for others.
//
// The clones have the layouts and the attributes of their originals (dropout masks are named after
// the original) and run the same kernels, so not a bit changes (law 6).
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

bool IsDear(const Graph& graph, const Op& op) {
  const OpDef* def = FindOpDef(op);
  if (!def->flops) return false;
  double elements = 0;
  for (TensorId t : op.outputs) {
    double of_one = 1;
    for (int64_t d : graph.tensors[t].shape.dims) of_one *= static_cast<double>(d);
    elements += of_one;
  }
  return def->flops(OpView{graph, op}) > kDear * elements;
}

bool Decides(const Op& op) { return FindOpDef(op)->decides; }

bool DrawsRandomNumbers(const Op& op) { return FindOpDef(op)->random; }

// Invariants:
//  1. scope_of_[op] is the scope of a forward op, or -1.
//  2. A tensor is redirected only if its op is cloned; a clone's input is a clone's output of the
//     same scope, or a tensor that is kept.
class Recomputation {
 public:
  Recomputation(Graph* graph, SbpChoice* choice)
      : graph_(graph),
        choice_(choice),
        uses_(FindUses(*graph)),
        scope_of_(graph->ops.size(), -1),
        cloned_(graph->ops.size(), false),
        kept_(graph->tensors.size(), false),
        clone_of_(graph->tensors.size(), -1) {}

  void Run() {
    FindScopes();
    // Later scopes first: the inputs of their clones must be kept by the scopes before them.
    for (size_t s = scopes_.size(); s-- > 0;) PlanScope(static_cast<int>(s));
    if (std::find(cloned_.begin(), cloned_.end(), true) == cloned_.end()) return;
    Rebuild();
    choice_->notes.push_back(
        absl::StrCat("recompute: ", clones_, " ops are computed again in the backward"));
  }

 private:
  void FindScopes() {
    std::map<std::string, std::string> recompute;  // by logical op
    for (const Op& op : graph_->ops) {
      if (!op.recompute.empty()) recompute[op.scope] = op.recompute;
    }
    std::map<std::tuple<std::string, int, int>, std::vector<OpId>> scopes;
    for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
      const Op& op = graph_->ops[id];
      const auto it = recompute.find(op.scope);
      if (it == recompute.end() || op.phase != Phase::kForward || HasOwnShape(op.kind)) continue;
      scopes[{it->second, op.stage, op.chunk}].push_back(id);
    }
    for (auto& [key, ops] : scopes) scopes_.push_back(std::move(ops));
    std::sort(scopes_.begin(), scopes_.end());
    for (size_t s = 0; s < scopes_.size(); ++s) {
      for (OpId id : scopes_[s]) scope_of_[id] = static_cast<int>(s);
    }
  }

  // True if a reader of `t` would read a clone: in the backward of the same chunk. Readers on other
  // stages keep what came to them in the forward.
  bool WouldRead(const Op& reader, TensorId t) const {
    const Op& producer = graph_->ops[graph_->tensors[t].producer];
    return reader.phase == Phase::kBackward && reader.stage == producer.stage &&
           reader.chunk == producer.chunk;
  }
  bool ReadByBackward(TensorId t) const {
    return std::any_of(uses_[t].begin(), uses_[t].end(),
                       [&](const Use& use) { return WouldRead(graph_->ops[use.op], t); });
  }
  // True if the tensor's op has no clone, or an op that will not read one reads it after the
  // forward.
  bool StaysAsItIs(TensorId t) const {
    const Op& producer = graph_->ops[graph_->tensors[t].producer];
    if (Decides(producer)) return true;
    return std::any_of(uses_[t].begin(), uses_[t].end(), [&](const Use& use) {
      const Op& reader = graph_->ops[use.op];
      return reader.stage == producer.stage && reader.phase != Phase::kForward &&
             !WouldRead(reader, t);
    });
  }

  bool Leaves(TensorId t, int scope) const {
    const std::vector<TensorId>& outputs = graph_->outputs;
    return t == graph_->loss || std::find(outputs.begin(), outputs.end(), t) != outputs.end() ||
           std::any_of(uses_[t].begin(), uses_[t].end(), [&](const Use& use) {
             return graph_->ops[use.op].phase == Phase::kForward && scope_of_[use.op] != scope;
           });
  }

  // Adds to `ops` those ops of the scope that recomputing `t` takes, beyond those already cloned.
  void AddAncestors(TensorId t, int scope, std::set<OpId>* ops) const {
    const OpId producer = graph_->tensors[t].producer;
    if (kept_[t] || scope_of_[producer] != scope || cloned_[producer]) return;
    if (!ops->insert(producer).second) return;
    for (TensorId input : graph_->ops[producer].inputs) AddAncestors(input, scope, ops);
  }

  void Clone(const std::set<OpId>& ops) {
    for (OpId id : ops) cloned_[id] = true;
  }

  void PlanScope(int scope) {
    std::vector<TensorId> leaving;
    for (OpId id : scopes_[scope]) {
      for (TensorId t : graph_->ops[id].outputs) {
        if (StaysAsItIs(t)) kept_[t] = true;
        if (!ReadByBackward(t)) continue;
        if (Leaves(t, scope)) {
          leaving.push_back(t);
          continue;
        }
        std::set<OpId> ops;
        AddAncestors(t, scope, &ops);
        Clone(ops);
      }
    }
    for (TensorId t : leaving) {
      std::set<OpId> ops;
      AddAncestors(t, scope, &ops);
      const bool dear = std::any_of(ops.begin(), ops.end(),
                                    [&](OpId id) { return IsDear(*graph_, graph_->ops[id]); });
      if (dear) {
        kept_[t] = true;
      } else {
        Clone(ops);
      }
    }
    for (OpId id : scopes_[scope]) {
      if (!cloned_[id]) continue;
      for (TensorId t : graph_->ops[id].inputs) {
        if (scope_of_[graph_->tensors[t].producer] != scope) kept_[t] = true;
      }
    }
  }

  // True if there is a clone to read instead of `t`.
  bool HasClone(TensorId t) const { return cloned_[graph_->tensors[t].producer] && !kept_[t]; }

  void Rebuild() {
    std::vector<Op> ops;
    std::vector<std::vector<NdSbp>> inputs;
    std::vector<bool> made(scopes_.size(), false);
    const std::vector<Op> old = graph_->ops;
    for (OpId id = 0; id < static_cast<OpId>(old.size()); ++id) {
      Op op = old[id];
      if (op.phase == Phase::kBackward) {
        for (TensorId& t : op.inputs) {
          if (!HasClone(t) || !WouldRead(op, t)) continue;
          const int scope = scope_of_[graph_->tensors[t].producer];
          if (!made[scope]) EmitClones(scope, old, &ops, &inputs);
          made[scope] = true;
          t = clone_of_[t];
        }
      }
      ops.push_back(std::move(op));
      inputs.push_back(choice_->op_inputs[id]);
    }
    SetOps(graph_, std::move(ops));
    choice_->op_inputs = std::move(inputs);
  }

  void EmitClones(int scope, const std::vector<Op>& old, std::vector<Op>* ops,
                  std::vector<std::vector<NdSbp>>* inputs) {
    for (OpId id : scopes_[scope]) {
      if (!cloned_[id]) continue;
      Op clone = old[id];
      clone.name = FreeName(*graph_, absl::StrCat(clone.name, ".again"));
      clone.phase = Phase::kBackward;
      clone.recomputed = true;
      clone.why = absl::StrCat(old[id].name, " is computed again, not kept");
      if (DrawsRandomNumbers(clone)) clone.attrs.try_emplace("mask", old[id].name);
      for (TensorId& t : clone.inputs) {
        if (HasClone(t) && scope_of_[graph_->tensors[t].producer] == scope) t = clone_of_[t];
      }
      for (TensorId& t : clone.outputs) t = CloneTensor(t, clone.name);
      ops->push_back(std::move(clone));
      inputs->push_back(choice_->op_inputs[id]);
      ++clones_;
    }
  }

  TensorId CloneTensor(TensorId t, const std::string& op) {
    Tensor copy = graph_->tensors[t];
    copy.name = copy.output == 0 ? op : absl::StrCat(op, ":", copy.output);
    copy.constraint.clear();
    graph_->tensors.push_back(std::move(copy));
    return clone_of_[t] = static_cast<TensorId>(graph_->tensors.size()) - 1;
  }

  Graph* graph_;
  SbpChoice* choice_;
  const std::vector<std::vector<Use>> uses_;
  std::vector<std::vector<OpId>> scopes_;  // ops in order; scopes by their first op
  std::vector<int> scope_of_;              // by op
  std::vector<bool> cloned_;               // by op
  std::vector<bool> kept_;                 // by tensor: read in the backward as it is
  std::vector<TensorId> clone_of_;         // by tensor; -1: none
  int clones_ = 0;
};

}  // namespace

void Recompute(Graph* graph, SbpChoice* choice) { Recomputation(graph, choice).Run(); }

}  // namespace oneflow
