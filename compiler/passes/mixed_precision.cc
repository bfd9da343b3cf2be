// Mixed precision: matrix products, attention and the ops between them read and write bf16. They
// still accumulate in f32. Tensors that a step's accuracy depends on stay f32: variables, their
// gradients and the optimizer's states, the residual stream, statistics of norms and softmax, the
// loss.
//
// The residual stream may be bf16, too: the inputs of norms and the sums between them (of matrices
// and more; each sum is rounded once), and the gradients of both. It halves the bytes of the stream
// that are kept and sent. Then a block that adds less than 1/256 of the stream is partly lost in
// rounding.
//
// The ops' definitions state the inputs that are read as bf16 (OpDef::precision), and the outputs
// that are bf16 then (docs/ops.md). A `cast` is added between types that differ:
//   of a variable   once a step, before the first micro-batch (Phase::kPrepare), on its own stage;
//                   if the weight rests split as its states, cast_uses.cc casts it for each use
//   of an activation or its gradient   once a micro-batch, shared by all of its readers
//   of a variable's gradient   once a micro-batch, on its own stage: it accumulates in f32
// No cast is added if the writer can round: a norm without f32 readers writes bf16
// (OpDef::may_round). An rms_norm of the heads of queries or keys reads them as they are.
//
// A variable that is frozen has no sums that could lose anything: it rests in bf16 where one of its
// readers takes it so, and they read it as it is. An embedding gives rows of such a table in the
// type that their readers take. Other readers that want f32 share a cast of it, once a step. A
// variable that is only read as f32 (the gain of a norm, a router) stays f32. The readers of all
// replicas decide together, and those of the first program for all, so a variable has one type at
// any pipe degree.
//
// It does not change the model: inputs, variables, loss and outputs have the types they had, and a
// graph in f64 stays as it is.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

enum class Want : uint8_t { kWide, kNarrow, kEither };

// Invariants:
//  1. ops_ holds the ops visited so far, with the casts they need before them.
//  2. Tensors of ops visited have their final types; uses_ and graph_->ops are as they were.
class Narrower {
 public:
  Narrower(Graph* graph, const MixedPrecisionOptions& options)
      : graph_(graph),
        residual_(options.residual),
        narrow_biases_(options.narrow_biases),
        uses_(FindUses(*graph)) {
    for (const Op& op : graph_->ops) names_.insert(op.name);
    if (options.narrow_frozen) FindResting(options.resting);
  }

  absl::Status Run(std::vector<GradientMirror>* mirrors) {
    std::vector<OpId> moved;
    for (const Op& original : graph_->ops) {
      Op op = original;
      for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i) {
        ASSIGN_OR_RETURN(op.inputs[i], Provide(op.inputs[i], WantedInput(op, i), op));
      }
      if (resting_.contains(op.outputs.empty() ? -1 : op.outputs[0])) op.attrs["narrow"] = true;
      if (RoundsItself(op)) op.attrs["dtype"] = std::string(Name(DType::kBF16));
      if (WidensItself(op)) op.attrs["dtype"] = std::string(Name(DType::kF32));
      if (!HasOwnShape(op.kind)) RETURN_IF_ERROR(InferOutputs(graph_, op));
      moved.push_back(static_cast<OpId>(ops_.size()));
      ops_.push_back(std::move(op));
    }
    for (TensorId& t : graph_->outputs) {
      ASSIGN_OR_RETURN(t, Leave(t));
    }
    if (graph_->loss >= 0) {
      ASSIGN_OR_RETURN(graph_->loss, Leave(graph_->loss));
    }
    SetOps(graph_, std::move(ops_));
    for (GradientMirror& mirror : *mirrors) {
      if (mirror.reader >= 0) mirror.reader = moved[mirror.reader];
    }
    return absl::OkStatus();
  }

 private:
  // Frozen variables that rest in bf16. `given`: types that an earlier program has decided.
  void FindResting(const std::map<std::string, DType>& given) {
    std::map<std::string, bool> narrow;
    for (const Op& op : graph_->ops) {
      if (!IsFrozen(op) || graph_->tensors[op.outputs[0]].dtype != DType::kF32) continue;
      bool& is_narrow = narrow[VariableName(op)];
      for (const Use& use : uses_[op.outputs[0]]) {
        const Op& reader = graph_->ops[use.op];
        is_narrow = is_narrow || WantedInput(reader, use.input) == Want::kNarrow ||
                    LooksUp(reader, use.input);
      }
    }
    for (const auto& [name, dtype] : given) {
      const auto known = narrow.find(name);
      if (known != narrow.end()) known->second = dtype == DType::kBF16;
    }
    for (const Op& op : graph_->ops) {
      const auto found = narrow.find(VariableName(op));
      if (!IsFrozen(op) || found == narrow.end() || !found->second) continue;
      graph_->tensors[op.outputs[0]].dtype = DType::kBF16;
      resting_.insert(op.outputs[0]);
    }
  }

  // True if an input is a table of which the op gives rows, in either type.
  static bool LooksUp(const Op& op, int input) {
    const OpDef& def = *FindOpDef(op);
    return def.looks_up && def.indices.of == input &&
           std::any_of(def.attrs.begin(), def.attrs.end(),
                       [](const AttrDef& attr) { return attr.name == "dtype"; });
  }

  // An op that gives rows of a bf16 table, which nobody reads as bf16, and somebody as f32.
  bool WidensItself(const Op& op) const {
    const int table = FindOpDef(op)->indices.of;
    if (!LooksUp(op, table) || graph_->tensors[op.inputs[table]].dtype != DType::kBF16)
      return false;
    bool wide = IsLeaving(op.outputs[0]);
    for (const Use& use : uses_[op.outputs[0]]) {
      const Want want = WantedInput(graph_->ops[use.op], use.input);
      if (want == Want::kNarrow) return false;
      wide = wide || want == Want::kWide;
    }
    return wide;
  }

  // True if `op` may be of a narrow stream. A sum of single numbers is none: it may be of losses;
  // nor is one of a single term: it is a copy, perhaps as a variable's gradient.
  bool MayStream(const Op& op) const {
    return residual_ == DType::kBF16 && op.inputs.size() >= 2 &&
           graph_->tensors[op.inputs[0]].shape.rank() >= 2;
  }

  Want WantedInput(const Op& op, int input) const {
    const std::vector<Precision>& precision = FindOpDef(op)->precision;
    if (precision.empty() || AttrBool(op, "wide")) return Want::kWide;
    switch (precision[std::min(input, static_cast<int>(precision.size()) - 1)]) {
      case Precision::kWide: return Want::kWide;
      case Precision::kNarrow: return Want::kNarrow;
      case Precision::kEither: return Want::kEither;
      case Precision::kStream: return MayStream(op) ? Want::kNarrow : Want::kWide;
      case Precision::kToStream: return MayStream(op) ? Want::kNarrow : Want::kEither;
      case Precision::kBias: return narrow_biases_ ? Want::kNarrow : Want::kWide;
    }
    return Want::kWide;
  }

  bool IsLeaving(TensorId t) const {
    return t == graph_->loss ||
           std::find(graph_->outputs.begin(), graph_->outputs.end(), t) != graph_->outputs.end();
  }

  // An op that may round, whose output is read as bf16 and by nobody as f32.
  bool RoundsItself(const Op& op) const {
    const TensorId y = op.outputs[0];
    if (!FindOpDef(op)->may_round || graph_->tensors[y].dtype != DType::kF32 || IsLeaving(y)) {
      return false;
    }
    bool narrow = false;
    for (const Use& use : uses_[y]) {
      const Want want = WantedInput(graph_->ops[use.op], use.input);
      if (want == Want::kWide) return false;
      narrow = narrow || want == Want::kNarrow;
    }
    return narrow;
  }

  // `t`, or what a cast makes of it, for a reader.
  absl::StatusOr<TensorId> Provide(TensorId t, Want want, const Op& reader) {
    const DType have = graph_->tensors[t].dtype;
    if (want == Want::kEither || (have != DType::kF32 && have != DType::kBF16)) return t;
    const DType need = want == Want::kNarrow ? DType::kBF16 : DType::kF32;
    if (have == need) return t;
    const auto [cast, fresh] = casts_.try_emplace(t, -1);
    if (!fresh) return cast->second;
    const Op& producer = graph_->Producer(t);
    // Tensors that the update reads accumulate over the micro-batches in f32, so they are cast
    // before.
    const Op& at = reader.phase == Phase::kUpdate ? producer : reader;
    Op op;
    op.kind = "cast";
    op.name = Unused(graph_->tensors[t].name + '.' + std::string(Name(need)));
    op.inputs = {t};
    op.attrs["dtype"] = std::string(Name(need));
    // A narrow stream is cast where it is made: a block that is computed again begins with it.
    const bool stream = residual_ == DType::kBF16 && at.phase == Phase::kForward;
    op.scope = stream ? producer.scope : at.scope;
    op.block = stream ? producer.block : at.block;
    op.why = reader.name + " reads " + graph_->tensors[t].name + " as " + std::string(Name(need));
    const bool prepared = IsVariable(producer);
    op.phase = prepared ? Phase::kPrepare : at.phase;
    op.stage = producer.stage;
    if (!prepared) std::tie(op.chunk, op.stage) = ChooseStage(t, want, at);
    op.outputs = {AddTensor(graph_, op.name)};
    // A copy of a variable has its layout.
    if (prepared) graph_->tensors[op.outputs[0]].constraint = graph_->tensors[t].constraint;
    RETURN_IF_ERROR(InferOutputs(graph_, op));
    cast->second = op.outputs[0];
    ops_.push_back(std::move(op));
    return cast->second;
  }

  // The (chunk, stage) of the reader that comes first in the phase, of all that share the cast:
  // there is one cast at any pipe degree, and nothing flows back.
  std::pair<int, int> ChooseStage(TensorId t, Want want, const Op& reader) const {
    std::pair chunk_and_stage(reader.chunk, reader.stage);
    for (const Use& use : uses_[t]) {
      const Op& other = graph_->ops[use.op];
      if (other.phase != reader.phase || WantedInput(other, use.input) != want) continue;
      const std::pair theirs(other.chunk, other.stage);
      chunk_and_stage = reader.phase == Phase::kForward ? std::min(chunk_and_stage, theirs)
                                                        : std::max(chunk_and_stage, theirs);
    }
    return chunk_and_stage;
  }

  // As it leaves the graph: f32, where it was made.
  absl::StatusOr<TensorId> Leave(TensorId t) {
    Op reader = graph_->Producer(t);
    reader.name = "the run";
    return Provide(t, Want::kWide, reader);
  }

  std::string Unused(const std::string& wish) {
    std::string name = wish;
    for (int i = 2; !names_.insert(name).second; ++i) name = wish + "." + std::to_string(i);
    return name;
  }

  Graph* graph_;
  const DType residual_;
  const bool narrow_biases_;
  const std::vector<std::vector<Use>> uses_;
  std::vector<Op> ops_;
  std::set<std::string> names_;
  std::map<TensorId, TensorId> casts_;  // of the tensors that are cast
  std::set<TensorId> resting_;          // frozen variables that rest in bf16
};

}  // namespace

absl::Status MixedPrecision(Graph* graph, const MixedPrecisionOptions& options,
                            std::vector<GradientMirror>* mirrors) {
  return Narrower(graph, options).Run(mirrors);
}

int CountNarrowProducts(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.ops.begin(), graph.ops.end(), [&graph](const Op& op) {
    return FindOpDef(op)->product && graph.tensors[op.inputs[0]].dtype == DType::kBF16;
  }));
}

}  // namespace oneflow
