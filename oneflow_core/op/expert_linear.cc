// expert_linear: y[G, b, r, C, H], w[E, H, F], offsets[G, b, r, E/G + 1], (bias[E, F]) ->
// [G, b, r, C, F]: each token in the queues (dispatch.cc) times the weight of its expert, plus the
// bias of its expert; slots behind the last token are 0. With `transpose_w` w is [E, F, H].
// expert_linear_grad_weight: y, dout, offsets -> dw, and expert_linear_grad_bias: dout, offsets ->
// dbias; each element sums the slots of its expert in order: runs by sequence and position, then
// slots.
//
// The bias is f32 in any precision, and is added before the product is rounded. Where devices split
// the contraction, each adds a partial bias: that of one device is the bias, the others' are 0,
// which boxing makes without communication.
//
// `taken` is what costs take for the number of slots that tokens take, of the queues of a run: k R,
// which they all do if nothing is dropped. Without it every slot counts. In a plan that is
// priced, `load` is the work of the busiest device, for which all others wait, over the even share.
#include <algorithm>
#include <utility>

#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/op/experts.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

constexpr int kSlotDims = 4;  // groups, batch, runs, slots
constexpr int kBias = 3;      // the input

// `tokens`[G, b, r, C, width] and `offsets` are of one queue; returns E / G.
absl::StatusOr<int64_t> ExpectQueues(std::string_view role, const Tensor& tokens,
                                     const Tensor& offsets) {
  RETURN_IF_ERROR(ExpectIds("offsets", offsets));
  if (tokens.shape.rank() != kSlotDims + 1 || offsets.shape.rank() != kSlotDims ||
      Part(tokens.shape, 0, 3).dims != Part(offsets.shape, 0, 3).dims ||
      offsets.shape.dims[3] < 1) {
    return Mismatch(Describe(role, tokens) + " and " + Describe("offsets", offsets) +
                    " must be [groups, batch, runs, slots, width] and [groups, batch, runs, "
                    "experts of a group + 1]");
  }
  return offsets.shape.dims[3] - 1;
}

// The part of the slots that costs take for full. `slots`[G, b, r, C, ...].
double FullPart(const AttrMap& attrs, const Dims& slots) {
  const auto taken = attrs.find("taken");
  const auto all = static_cast<double>(slots[0] * slots[3]);
  if (taken == attrs.end() || all == 0) return 1;
  return std::clamp(static_cast<double>(std::get<int64_t>(taken->second)) / all, 0.0, 1.0);
}

Specs InferExpertLinear(const OpView& v) {
  const Tensor &y = v.in(0), &w = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"y", "w"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"y", "w"}, 0, 1));
  ASSIGN_OR_RETURN(const int64_t of_group, ExpectQueues("y", y, v.in(2)));
  const bool transposed = AttrBool(v.op, "transpose_w");
  const int in = transposed ? 2 : 1, out = transposed ? 1 : 2;
  if (w.shape.rank() != 3 || w.shape.dims[0] != y.shape.dims[0] * of_group ||
      w.shape.dims[in] != y.shape.dims[kSlotDims]) {
    return Mismatch(Describe("w", w) + " must be [" + std::to_string(y.shape.dims[0] * of_group) +
                        " experts, " + (transposed ? "any, " : "") +
                        std::to_string(y.shape.dims[kSlotDims]) + (transposed ? "]" : ", any]"),
                    "as follow from " + Describe("y", y) + " and " + Describe("offsets", v.in(2)));
  }
  if (v.n_inputs() > kBias) {
    if (v.in(kBias).dtype != AccumulationType(y.dtype)) {
      return Mismatch(Describe("bias", v.in(kBias)) + " is read as " +
                          std::string(Name(AccumulationType(y.dtype))) + " only",
                      "cast it");
    }
    RETURN_IF_ERROR(ExpectDims("bias", v.in(kBias), {w.shape.dims[0], w.shape.dims[out]},
                               "a number for each expert and column of " + Describe("w", w)));
  }
  return std::vector<OutputSpec>{
      {Join(Part(y.shape, 0, kSlotDims), Part(w.shape, out, out + 1)), y.dtype}};
}

// Adds rows that split runs, where there are several; and groups, and with them their experts.
Rows AlsoSplitQueues(const OpView& v, Rows rows, Signature runs) {
  const int64_t groups = v.in_dims(0)[0], of_sequence = v.in_dims(0)[2];
  if (of_sequence > 1) rows.push_back(std::move(runs));
  const std::vector<Sbp> all(v.n_inputs(), S(0));
  if (groups > 1) rows.push_back({all, {S(0)}, /*divided=*/groups});
  return rows;
}

Rows ExpertLinearRows(const OpView& v) {
  const bool transposed = AttrBool(v.op, "transpose_w");
  Rows rows = AlsoSplitQueues(v,
                              {{{B(), B(), B(), B()}, {B()}},
                               {{S(1), B(), S(1), B()}, {S(1)}},
                               {{B(), S(transposed ? 1 : 2), B(), S(1)}, {S(kSlotDims)}},
                               {{S(kSlotDims), S(transposed ? 2 : 1), B(), P()}, {P()}},
                               {{P(), B(), B(), P()}, {P()}}},
                              {{S(2), B(), S(2), B()}, {S(2)}});
  for (Signature& row : rows) row.in.resize(v.n_inputs());
  return rows;
}

InputGrads ExpertLinearGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId dout = g.output_grads[0];
  const bool transposed = AttrBool(op, "transpose_w");
  AttrMap attrs;
  for (const char* key : {"taken", "load"}) {
    if (const auto it = op.attrs.find(key); it != op.attrs.end()) attrs.insert(*it);
  }
  std::vector<TensorId> grads(op.inputs.size(), -1);
  if (op.inputs.size() > kBias && g.needs_grad[kBias]) {
    grads[kBias] = AddGradient(g, "expert_linear_grad_bias", ".dbias", {dout, op.inputs[2]});
  }
  if (g.needs_grad[1]) {
    const TensorId left = transposed ? dout : op.inputs[0];
    const TensorId right = transposed ? op.inputs[0] : dout;
    grads[1] =
        AddGradient(g, "expert_linear_grad_weight", ".dw", {left, right, op.inputs[2]}, attrs);
  }
  if (g.needs_grad[0]) {
    attrs["transpose_w"] = !transposed;
    grads[0] = AddGradient(g, "expert_linear", ".dx", {dout, op.inputs[1], op.inputs[2]},
                           std::move(attrs));
  }
  return grads;
}

// Of slots `y` that are taken, each times a matrix of so many columns.
double ExpertLinearProductFlops(const AttrMap& attrs, const Dims& y, int64_t columns) {
  return 2.0 * FullPart(attrs, y) * static_cast<double>(Product(y)) * static_cast<double>(columns);
}

double BusiestLoad(const Op& op) { return AttrDouble(op, "load", 1); }

double ExpertLinearFlops(const OpView& v) {
  const Dims& out = v.out(0).shape.dims;
  const double product = ExpertLinearProductFlops(v.op.attrs, v.in_dims(0), out[kSlotDims]);
  const double bias =
      v.n_inputs() > kBias ? FullPart(v.op.attrs, out) * static_cast<double>(Product(out)) : 0;
  return BusiestLoad(v.op) * (product + bias);
}

CountedFlops CountLinearFlops(const LocalOp& op) {
  return {.model = ExpertLinearProductFlops(op.attrs, op.in[0], op.out[0][kSlotDims])};
}

// Each thread multiplies the tokens of an expert and a run by itself.
int64_t LinearWorkspace(const LocalOp& op, int threads) {
  const int64_t slots = op.in[0][3], width = op.in[0][kSlotDims], out = op.out[0][kSlotDims];
  return Product(op.in[0]) == 0 || out == 0 ? 0 : threads * ProductWorkspace(slots, out, width);
}

// --- expert_linear_grad_weight ---

Specs InferGradWeight(const OpView& v) {
  const Tensor &y = v.in(0), &dout = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"y", "dout"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"y", "dout"}, 0, 1));
  ASSIGN_OR_RETURN(const int64_t of_group, ExpectQueues("y", y, v.in(2)));
  if (dout.shape.rank() != kSlotDims + 1 ||
      Part(dout.shape, 0, kSlotDims).dims != Part(y.shape, 0, kSlotDims).dims) {
    return Mismatch(Describe("y", y) + " and " + Describe("dout", dout) +
                    " differ in their first 4 dims");
  }
  const Shape width =
      Join(Part(y.shape, kSlotDims, kSlotDims + 1), Part(dout.shape, kSlotDims, kSlotDims + 1));
  return std::vector<OutputSpec>{
      {Join(Shape({y.shape.dims[0] * of_group}), width), AccumulationType(y.dtype)}};
}

Rows GradWeightRows(const OpView& v) {
  return AlsoSplitQueues(v,
                         {AllB(v),
                          {{S(1), S(1), S(1)}, {P()}},
                          {{S(kSlotDims), B(), B()}, {S(1)}},
                          {{B(), S(kSlotDims), B()}, {S(2)}},
                          {{P(), B(), B()}, {P()}},
                          {{B(), P(), B()}, {P()}}},
                         {{S(2), S(2), S(2)}, {P()}});
}

double GradWeightFlops(const OpView& v) {
  return BusiestLoad(v.op) *
         ExpertLinearProductFlops(v.op.attrs, v.in_dims(0), v.in_dims(1)[kSlotDims]);
}

CountedFlops CountGradWeightFlops(const LocalOp& op) {
  return {.model = ExpertLinearProductFlops(op.attrs, op.in[0], op.in[1][kSlotDims])};
}

int64_t GradWeightWorkspace(const LocalOp& op, int threads) {
  const int64_t slots = op.in[0][3], width = op.in[0][kSlotDims], out = op.in[1][kSlotDims];
  return Product(op.in[0]) == 0 || out == 0 ? 0 : threads * ProductWorkspace(width, out, slots);
}

// --- expert_linear_grad_bias: dout[G, b, r, C, F], offsets[G, b, r, E/G + 1] -> dbias[E, F] ---

Specs InferExpertGradBias(const OpView& v) {
  const Tensor& dout = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"dout"}, {0}));
  ASSIGN_OR_RETURN(const int64_t of_group, ExpectQueues("dout", dout, v.in(1)));
  return std::vector<OutputSpec>{
      {Join(Shape({dout.shape.dims[0] * of_group}), Part(dout.shape, kSlotDims, kSlotDims + 1)),
       AccumulationType(dout.dtype)}};
}

Rows ExpertGradBiasRows(const OpView& v) {
  return AlsoSplitQueues(
      v, {AllB(v), {{S(1), S(1)}, {P()}}, {{S(kSlotDims), B()}, {S(1)}}, {{P(), B()}, {P()}}},
      {{S(2), S(2)}, {P()}});
}

// --- Samples: a large one has several runs, and widths that tensor cores multiply ---

constexpr int64_t kLargeWidth = 136, kLargeColumns = 72;

RouteSample MakeLargeRoute() { return RouteSamples({.b = 3, .t = 40})[0]; }

Samples ExpertLinearSamples(const SampleSizes& s) {
  Samples samples;
  const auto add = [&](const RouteSample& r, int64_t width, int64_t columns, bool transposed,
                       bool narrow, bool biased) {
    SampleTensor y = r.Slots(width), w{{r.dims.experts, width, columns}};
    if (transposed) std::swap(w.dims[1], w.dims[2]);
    y.narrow = w.narrow = narrow;
    samples.push_back({{y, w, r.offsets}, {{"transpose_w", transposed}}});
    if (biased) samples.back().in.push_back({{r.dims.experts, columns}});
  };
  for (const bool narrow : {false, true}) {
    for (const RouteSample& r : RouteSamples(s)) {
      for (const bool transposed : {false, true}) {
        add(r, s.c, s.o, transposed, narrow, /*biased=*/false);
      }
      add(r, s.c, s.o, /*transposed=*/r.dims.slots % 2 == 0, narrow, /*biased=*/true);
    }
  }
  if (!s.large) return samples;
  for (const bool transposed : {false, true}) {
    add(MakeLargeRoute(), kLargeWidth, kLargeColumns, transposed, /*narrow=*/true,
        /*biased=*/!transposed);
  }
  return samples;
}

}  // namespace

std::vector<OpDef> ExpertLinearOps() {
  return {
      {.kind = "expert_linear",
       .usage = "y[G, b, r, C, H], w[E, H, F], offsets[G, b, r, E/G + 1], (bias[E, F]) -> "
                "[G, b, r, C, F]",
       .inputs = {3, 4},
       .attrs = {{"transpose_w", AttrType::kBool},
                 {"taken", AttrType::kInt},
                 OwnAttr("load", AttrType::kDouble)},
       .infer = InferExpertLinear,
       .signatures = ExpertLinearRows,
       .gradient = ExpertLinearGradient,
       .flops = ExpertLinearFlops,
       .own_products = true,
       .counted_flops = CountLinearFlops,
       .overwrites = true,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kEither, Precision::kWide},
       .cpu_workspace = LinearWorkspace,
       .samples = ExpertLinearSamples},
      {.kind = "expert_linear_grad_weight",
       .usage = "y[G, b, r, C, H], dout[G, b, r, C, F], offsets[G, b, r, E/G + 1] -> dw[E, H, F]",
       .inputs = {3},
       .attrs = {{"taken", AttrType::kInt}, OwnAttr("load", AttrType::kDouble)},
       .infer = InferGradWeight,
       .signatures = GradWeightRows,
       .flops = GradWeightFlops,
       .own_products = true,
       .counted_flops = CountGradWeightFlops,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kEither},
       .cpu_workspace = GradWeightWorkspace,
       .samples =
           [](const SampleSizes& s) {
             Samples samples;
             for (const RouteSample& r : RouteSamples(s)) {
               samples.push_back({{r.Slots(s.c), r.Slots(s.o), r.offsets}, {}});
             }
             samples = AlsoNarrow(samples);
             if (!s.large) return samples;
             const RouteSample r = MakeLargeRoute();
             samples.push_back(
                 {{r.Slots(kLargeWidth).Narrow(), r.Slots(kLargeColumns).Narrow(), r.offsets}, {}});
             return samples;
           }},
      {.kind = "expert_linear_grad_bias",
       .usage = "dout[G, b, r, C, F], offsets[G, b, r, E/G + 1] -> dbias[E, F]",
       .inputs = {2},
       .infer = InferExpertGradBias,
       .signatures = ExpertGradBiasRows,
       .flops = PerElement(1),
       .precision = {Precision::kEither},
       .samples = [](const SampleSizes& s) {
         Samples samples;
         for (const RouteSample& r : RouteSamples(s)) {
           samples.push_back({{r.Slots(s.o), r.offsets}, {}});
         }
         samples = AlsoNarrow(samples);
         if (!s.large) return samples;
         const RouteSample r = MakeLargeRoute();
         samples.push_back({{r.Slots(kLargeColumns).Narrow(), r.offsets}, {}});
         return samples;
       }}};
}

}  // namespace oneflow
