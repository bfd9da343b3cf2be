// Splits the states, the gradient and the weight at rest of each variable as its attributes say
// (oneflow_core/model/sharding.h). Before this pass nothing is split, and all choices of infer_sbp
// stay, so a split changes no layout in which the model computes.
//
//   variable w, its moments     B -> S(split_dim) on the axes of `states`
//   casts of w once a step      the same (cast_uses.cc may make them casts for each use)
//   the gradient of a use       P -> S(split_dim) on the axes of `gradients`, P -> B on those of
//                               `reduced`: a new op in the backward, add_n "dw.part", takes the sum
//                               of the devices and adds it up over the micro-batches
//   sum_uses, sum_squares,      B -> S(split_dim) on the axes of `states`; the result of
//   adamw                       sum_squares is then S(0)
//
// insert_boxing does the rest: it gathers w for its readers, over the axes of `gather_once` once a
// step, and reduces gradients. An axis on which infer_sbp has already split a variable keeps that
// layout. Each element goes through the same sums as without a split, with two exceptions.
// `gradients` and `reduced` reduce before the sum over micro-batches, and a split over two factors
// of an axis sums factor by factor.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// True if an op updates a variable by its gradient, and moments beside it; a bias that a rule moves
// has neither.
bool HasMoments(const Op& op) { return FindOpDef(op)->updates > 1; }

class Splitter {
 public:
  Splitter(Graph* graph, SbpChoice* choice)
      : graph_(*graph), choice_(*choice), uses_(FindUses(*graph)), parts_(graph->ops.size()) {}

  void Run() {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      if (IsVariable(graph_.ops[id])) Split(id);
    }
    AddUpAlike();
    InsertParts();
  }

 private:
  struct Layout {
    Sbp split = B();
    std::vector<int> states, gradients, reduced;
  };

  void Split(OpId id) {
    const Op& variable = graph_.ops[id];
    Layout layout;
    layout.states = FindAxes(graph_, variable, "states");
    layout.gradients = FindAxes(graph_, variable, "gradients");
    layout.reduced = FindAxes(graph_, variable, "reduced");
    if (layout.states.empty() && layout.reduced.empty()) return;
    const auto dim = static_cast<int>(AttrInt(variable, "split_dim", -1));
    if (dim < 0) layout.states.clear(), layout.gradients.clear();
    layout.split = S(std::max(dim, 0));
    const TensorId w = variable.outputs[0];
    // Split already: readers may take it so, and its states and gradient lie so, too.
    const auto taken = [&](int axis) { return !graph_.tensors[w].sbp[axis].broadcast(); };
    std::erase_if(layout.states, taken);
    std::erase_if(layout.gradients, taken);
    std::erase_if(layout.reduced, taken);
    SplitTensor(w, layout.states, layout.split);
    for (const Use& use : uses_[w]) {
      const Op& reader = graph_.ops[use.op];
      if (reader.phase == Phase::kPrepare) SplitOp(use.op, layout.states, layout.split);
      if (HasMoments(reader)) SplitUpdate(use.op, layout);
    }
  }

  // `update`: the op that takes the gradient and writes the variable and its moments.
  void SplitUpdate(OpId update, const Layout& layout) {
    constexpr int kGradient = 3;  // of adamw's inputs (optimizer.cc)
    for (int i = 0; i < kGradient; ++i) {
      const TensorId state = graph_.ops[update].inputs[i];
      SplitTensor(state, layout.states, layout.split);
    }
    SplitOp(update, layout.states, layout.split);
    const TensorId full = graph_.ops[update].inputs[kGradient];
    const OpId sum = graph_.tensors[full].producer;
    const bool of_uses = graph_.ops[sum].phase == Phase::kUpdate;
    const std::vector<TensorId> grads =
        of_uses ? graph_.ops[sum].inputs : std::vector<TensorId>{full};
    for (const TensorId grad : grads) TakePart(grad, layout);
    if (of_uses) SplitReader(sum, layout);
    for (const Use& use : uses_[full]) {
      if (use.op == update) continue;
      SplitReader(use.op, layout);  // sum_squares
    }
    SplitInput(update, kGradient, layout);
  }

  // An op of the update that reads a gradient: it reads parts where there are some, and gives them.
  void SplitReader(OpId id, const Layout& layout) {
    for (size_t i = 0; i < graph_.ops[id].inputs.size(); ++i) {
      SplitInput(id, static_cast<int>(i), layout);
    }
    const Op& op = graph_.ops[id];
    const Tensor& in = graph_.tensors[op.inputs[0]];
    Tensor& out = graph_.tensors[op.outputs[0]];
    const bool sums = out.shape != in.shape;  // over all but the dimension that is split
    for (size_t axis = 0; axis < out.sbp.size(); ++axis) {
      const Sbp read = choice_.op_inputs[id][0][axis];
      if (!sums && !read.partial() && out.sbp[axis].partial()) out.sbp[axis] = read;
      if (out.sbp[axis].broadcast() && read.split()) out.sbp[axis] = sums ? S(0) : read;
    }
  }

  void SplitInput(OpId id, int input, const Layout& layout) {
    NdSbp& sbp = choice_.op_inputs[id][input];
    for (const int axis : layout.states) {
      if (sbp[axis].broadcast()) sbp[axis] = layout.split;
    }
    // Partial no more: the sum is made as a micro-batch ends.
    for (const int axis : layout.reduced) {
      if (sbp[axis].partial()) sbp[axis] = B();
    }
    for (const int axis : layout.gradients) {
      if (sbp[axis].partial() || sbp[axis].broadcast()) sbp[axis] = layout.split;
    }
  }

  void SplitTensor(TensorId t, const std::vector<int>& axes, Sbp split) {
    for (const int axis : axes) {
      if (graph_.tensors[t].sbp[axis].broadcast()) graph_.tensors[t].sbp[axis] = split;
    }
  }

  // All inputs and outputs that have the shape of the variable.
  void SplitOp(OpId id, const std::vector<int>& axes, Sbp split) {
    const Op& op = graph_.ops[id];
    const Dims& dims = graph_.tensors[op.outputs[0]].shape.dims;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (graph_.tensors[op.inputs[i]].shape.dims != dims) continue;
      for (const int axis : axes) {
        if (choice_.op_inputs[id][i][axis].broadcast()) choice_.op_inputs[id][i][axis] = split;
      }
    }
    for (const TensorId t : op.outputs) SplitTensor(t, axes, split);
  }

  // Remembers to reduce `grad` as a micro-batch ends; its readers of the update read the sum.
  void TakePart(TensorId grad, const Layout& layout) {
    NdSbp to = graph_.tensors[grad].sbp;
    for (const int axis : layout.reduced) {
      if (to[axis].partial()) to[axis] = B();
    }
    for (const int axis : layout.gradients) {
      if (to[axis].partial() || to[axis].broadcast()) to[axis] = layout.split;
    }
    // One that is no sum adds up as the others do, and not within the kernel of its op.
    if (!layout.reduced.empty() || !layout.gradients.empty()) AddUp(grad, to);
  }

  // Several gradients that one op gives add up alike: those whose layout does not change, too.
  void AddUpAlike() {
    for (OpId id = 0; id < static_cast<OpId>(parts_.size()); ++id) {
      if (parts_[id].empty()) continue;
      const Op& op = graph_.ops[id];
      for (size_t i = FindOpDef(op)->fresh; i < op.outputs.size(); ++i) {
        const TensorId t = op.outputs[i];
        const bool late = std::any_of(uses_[t].begin(), uses_[t].end(), [&](const Use& use) {
          return graph_.ops[use.op].phase == Phase::kUpdate;
        });
        if (late) AddUp(t, NdSbp(graph_.tensors[t].sbp));
      }
    }
  }

  void AddUp(TensorId grad, const NdSbp& to) {
    const OpId producer = graph_.tensors[grad].producer;
    const auto made = part_of_.find(grad);
    if (made != part_of_.end()) return;
    const Op& like = graph_.ops[producer];
    Op op;
    op.kind = kAddUp;
    op.name = FreeName(graph_, absl::StrCat(like.name, ".part"));
    op.phase = Phase::kBackward;
    op.stage = like.stage;
    op.chunk = like.chunk;
    op.block = like.block;
    op.scope = like.scope;
    op.why = "the gradient adds up as it is split";
    op.inputs = {grad};
    Tensor part = graph_.tensors[grad];
    part.name = op.name;
    part.output = 0;
    part.constraint.clear();
    part.sbp = to;
    graph_.tensors.push_back(std::move(part));
    op.outputs = {static_cast<TensorId>(graph_.tensors.size()) - 1};
    part_of_[grad] = op.outputs[0];
    parts_[producer].push_back(std::move(op));
  }

  void InsertParts() {
    std::vector<Op> ops;
    std::vector<std::vector<NdSbp>> inputs;
    for (OpId id = 0; id < static_cast<OpId>(parts_.size()); ++id) {
      Op op = graph_.ops[id];
      for (TensorId& t : op.inputs) {
        const auto part = op.phase == Phase::kUpdate ? part_of_.find(t) : part_of_.end();
        if (part != part_of_.end()) t = part->second;
      }
      ops.push_back(std::move(op));
      inputs.push_back(std::move(choice_.op_inputs[id]));
      for (Op& part : parts_[id]) {
        inputs.push_back({graph_.tensors[part.outputs[0]].sbp});
        ops.push_back(std::move(part));
      }
    }
    SetOps(&graph_, std::move(ops));
    choice_.op_inputs = std::move(inputs);
  }

  Graph& graph_;
  SbpChoice& choice_;
  const std::vector<std::vector<Use>> uses_;
  std::vector<std::vector<Op>> parts_;    // to stand behind an op
  std::map<TensorId, TensorId> part_of_;  // of a gradient
};

}  // namespace

void SplitVariables(Graph* graph, SbpChoice* choice) { Splitter(graph, choice).Run(); }

}  // namespace oneflow
