// Gathers the keys and values of attention in pieces of their heads. The gather of a piece runs
// beside the attention of the pieces before it; in the backward, so does the reduction of their
// gradients.
//
//   k, v -> gather -> attention(q) -> out
//
//   k, v -> part 0 -> gather -> attention(part 0 of q) -> join -> out
//        -> part 1 -> gather -> attention(part 1 of q) ->
//
// Groups of heads are independent, so no bit changes. All parts are taken before the first
// attention. So with overlap (lower/overlap.h) their gathers are entered one after the other, as
// soon as keys and values are there. Only the first of n pieces is waited for in full. Parts are
// copies on a device: without overlap pieces cost that and gain nothing.
//
// An axis that splits groups of heads, too, has a part of each piece: see the blocks of
// op/parts.cc.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"

namespace oneflow {
namespace {

constexpr int kGroups = 2;  // the dimension of queries, keys and values

// Inputs of attention and attention_grad, in which the first is dout.
struct Ports {
  int q, k, v;
};
constexpr Ports kForward{0, 1, 2}, kBackward{1, 2, 3};
constexpr int kSinks = 3;          // of attention that has sinks
constexpr int kOut = 4, kLse = 5;  // of attention_grad

class Piecer {
 public:
  Piecer(Graph* graph, int pieces, SbpChoice* choice)
      : graph_(*graph), most_(pieces), choice_(*choice), uses_(FindUses(*graph)) {}

  void Run() {
    const std::vector<Op> old = graph_.ops;  // names stay taken while ops_ grows
    const std::vector<std::vector<NdSbp>> needs = choice_.op_inputs;
    for (OpId id = 0; id < static_cast<OpId>(old.size()); ++id) {
      if (old[id].kind == "attention" && IsGathered(old[id], needs[id])) {
        AddForward(old[id], needs[id]);
      } else if (old[id].kind == "attention_grad" && pieces_of_.contains(old[id].inputs[kLse])) {
        AddBackward(old[id], needs[id]);
      } else {
        Add(old[id], needs[id]);
      }
    }
    if (pieces_of_.empty()) return;
    SetOps(&graph_, std::move(ops_));
    choice_.op_inputs = std::move(inputs_);
  }

 private:
  // What a forward has made: of each piece queries, keys, values, and the sums of its rows.
  struct Piece {
    TensorId q, k, v, lse;
  };
  struct Pieces {
    int64_t blocks = 1;
    std::vector<Piece> pieces;
  };

  // True if keys and values are split where the op needs all of them, in groups that pieces divide.
  bool IsGathered(const Op& op, const std::vector<NdSbp>& needs) const {
    const NdSbp &has = graph_.tensors[op.inputs[kForward.k]].sbp, &need = needs[kForward.k];
    bool gathered = false;
    for (size_t axis = 0; axis < need.size(); ++axis) {
      gathered = gathered || (has[axis].split() && need[axis].broadcast());
    }
    return gathered && CountPieces(op, need) > 1;
  }

  // True if more than the gradients of pieces reads the sums of rows: the gradient of sinks does.
  bool NeedsSums(const Op& op) const {
    const std::vector<Use>& uses = uses_[op.outputs[1]];
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      return graph_.ops[use.op].kind != "attention_grad" || use.input != kLse;
    });
  }

  // Devices that split the groups.
  int64_t CountBlocks(const NdSbp& need) const {
    int64_t blocks = 1;
    for (size_t axis = 0; axis < need.size(); ++axis) {
      if (need[axis] == S(kGroups)) blocks *= graph_.mesh.axes[axis].size;
    }
    return blocks;
  }

  int CountPieces(const Op& op, const NdSbp& need) const {
    const int64_t groups = graph_.tensors[op.inputs[kForward.k]].shape.dims[kGroups];
    const int64_t blocks = CountBlocks(need);
    if (groups % blocks != 0) return 1;
    int pieces = most_;
    while (groups / blocks % pieces != 0) --pieces;
    return pieces;
  }

  void Add(Op op, std::vector<NdSbp> needs) {
    ops_.push_back(std::move(op));
    inputs_.push_back(std::move(needs));
  }

  // An output of a new op: its layout, and the tensor that it becomes; -1: one of its own.
  struct Output {
    NdSbp sbp;
    TensorId tensor = -1;
  };
  // An op beside `of`, of which it takes over what is not said.
  const Op& AddBeside(const Op& of, std::string kind, const std::string& suffix,
                      std::vector<TensorId> inputs, AttrMap attrs, std::vector<NdSbp> needs,
                      const std::vector<Output>& outputs) {
    Op op = of;
    op.kind = std::move(kind);
    op.name = FreeName(graph_, absl::StrCat(of.name, suffix));
    op.inputs = std::move(inputs);
    op.attrs = std::move(attrs);
    op.why = absl::StrCat(of.name, " is computed in pieces of its heads");
    op.outputs.clear();
    for (const Output& output : outputs) {
      const TensorId t = output.tensor >= 0 ? output.tensor : AddTensor(&graph_, "");
      const auto i = static_cast<int>(op.outputs.size());
      graph_.tensors[t].name = i == 0 ? op.name : absl::StrCat(op.name, ":", i);
      graph_.tensors[t].sbp = output.sbp;
      graph_.tensors[t].output = i;
      op.outputs.push_back(t);
    }
    CHECK(InferOutputs(&graph_, op).ok()) << op.name;
    Add(std::move(op), std::move(needs));
    return ops_.back();
  }

  // Part `index` of a tensor, in the layout `sbp`; `dim` has the groups.
  TensorId Take(const Op& of, TensorId t, int64_t index, const Pieces& p, const NdSbp& sbp,
                const std::string& suffix, int64_t dim = kGroups) {
    const auto parts = static_cast<int64_t>(p.pieces.size());
    AttrMap attrs = {{"dim", dim}, {"parts", parts}, {"index", index}};
    if (p.blocks > 1) attrs["blocks"] = p.blocks;
    return AddBeside(of, "take_part", absl::StrCat(suffix, index), {t}, std::move(attrs), {sbp},
                     {{sbp}})
        .outputs[0];
  }

  // The parts become the tensor `t` again, in the layout `sbp`.
  void Join(const Op& of, std::vector<TensorId> parts, const Pieces& p, const NdSbp& sbp,
            const std::string& suffix, TensorId t, int64_t dim = kGroups) {
    AttrMap attrs = {{"dim", dim}};
    if (p.blocks > 1) attrs["blocks"] = p.blocks;
    std::vector<NdSbp> needs(parts.size(), sbp);
    AddBeside(of, "join_parts", suffix, std::move(parts), std::move(attrs), std::move(needs),
              {{sbp, t}});
  }

  // The layout in which parts of keys or values are taken: as they are where they are gathered,
  // else as the op needs them.
  NdSbp BeforeGather(TensorId t, const NdSbp& need) const {
    NdSbp sbp = need;
    for (size_t axis = 0; axis < sbp.size(); ++axis) {
      const Sbp has = graph_.tensors[t].sbp[axis];
      if (sbp[axis].broadcast() && has.split() && has.dim != kGroups) sbp[axis] = has;
    }
    return sbp;
  }

  void AddForward(const Op& op, const std::vector<NdSbp>& needs) {
    Pieces p{CountBlocks(needs[kForward.k]), {}};
    p.pieces.resize(CountPieces(op, needs[kForward.k]));
    const TensorId k = op.inputs[kForward.k], v = op.inputs[kForward.v];
    int64_t index = 0;
    for (Piece& piece : p.pieces) {
      piece.k = Take(op, k, index, p, BeforeGather(k, needs[kForward.k]), ".k");
      piece.v = Take(op, v, index++, p, BeforeGather(v, needs[kForward.v]), ".v");
    }
    std::vector<TensorId> outs, all_sums;
    const bool joins_sums = NeedsSums(op);
    index = 0;
    const NdSbp out = graph_.tensors[op.outputs[0]].sbp, lse = graph_.tensors[op.outputs[1]].sbp;
    for (Piece& piece : p.pieces) {
      piece.q = Take(op, op.inputs[kForward.q], index, p, needs[kForward.q], ".q");
      std::vector<TensorId> inputs = op.inputs;
      inputs[kForward.q] = piece.q, inputs[kForward.k] = piece.k, inputs[kForward.v] = piece.v;
      if (AttrBool(op, "sinks")) {
        inputs[kSinks] = Take(op, inputs[kSinks], index, p, needs[kSinks], ".sinks", 0);
      }
      // Every tensor keeps a producer.
      const TensorId sums = index == 0 && !joins_sums ? op.outputs[1] : -1;
      const Op& made = AddBeside(op, op.kind, absl::StrCat(".piece", index++), std::move(inputs),
                                 op.attrs, needs, {{out}, {lse, sums}});
      outs.push_back(made.outputs[0]);
      piece.lse = made.outputs[1];
      all_sums.push_back(piece.lse);
    }
    Join(op, std::move(outs), p, out, ".join", op.outputs[0]);
    if (joins_sums) Join(op, std::move(all_sums), p, lse, ".join_lse", op.outputs[1], kGroups - 1);
    pieces_of_[op.outputs[1]] = std::move(p);
  }

  // The layout in which all readers of a gradient need it, in which it is joined: what is partial
  // is then reduced piece by piece.
  NdSbp NeededBy(TensorId t, const std::vector<std::vector<NdSbp>>& needs) const {
    const std::vector<Use>& uses = uses_[t];
    if (uses.empty()) return graph_.tensors[t].sbp;
    const NdSbp& need = needs[uses[0].op][uses[0].input];
    const bool alike = std::all_of(
        uses.begin(), uses.end(), [&](const Use& use) { return needs[use.op][use.input] == need; });
    const NdSbp& own = graph_.tensors[t].sbp;
    bool torn = false;  // parts of a piece of heads
    for (size_t axis = 0; axis < own.size(); ++axis) {
      torn = torn || (need[axis] == S(kGroups) && own[axis] != need[axis]);
    }
    return alike && !torn ? need : own;
  }

  void AddBackward(const Op& op, const std::vector<NdSbp>& needs) {
    const Pieces& p = pieces_of_.at(op.inputs[kLse]);
    std::vector<Output> outputs;
    for (const TensorId t : op.outputs) outputs.push_back({graph_.tensors[t].sbp});
    std::vector<std::vector<TensorId>> grads(op.outputs.size());
    int64_t index = 0;
    for (const Piece& piece : p.pieces) {
      std::vector<TensorId> inputs = op.inputs;
      inputs[0] = Take(op, op.inputs[0], index, p, needs[0], ".dout");
      inputs[kOut] = Take(op, op.inputs[kOut], index, p, needs[kOut], ".out");
      inputs[kBackward.q] = piece.q, inputs[kBackward.k] = piece.k, inputs[kBackward.v] = piece.v;
      inputs[kLse] = piece.lse;
      const Op& made = AddBeside(op, op.kind, absl::StrCat(".piece", index++), std::move(inputs),
                                 op.attrs, needs, outputs);
      for (size_t i = 0; i < grads.size(); ++i) grads[i].push_back(made.outputs[i]);
    }
    const char* suffixes[] = {".join_q", ".join_k", ".join_v"};
    for (size_t i = 0; i < grads.size(); ++i) {
      Join(op, std::move(grads[i]), p, NeededBy(op.outputs[i], choice_.op_inputs), suffixes[i],
           op.outputs[i]);
    }
  }

  Graph& graph_;
  const int most_;
  SbpChoice& choice_;
  const std::vector<std::vector<Use>> uses_;
  std::map<TensorId, Pieces> pieces_of_;  // by the sums of rows of the forward
  std::vector<Op> ops_;                   // of the new graph
  std::vector<std::vector<NdSbp>> inputs_;
};

}  // namespace

void PieceAttention(Graph* graph, int pieces, SbpChoice* choice) {
  Piecer(graph, pieces, choice).Run();
}

}  // namespace oneflow
