// linear: x[..., c...] w[c..., o...] (+ bias[o...]) -> [..., o...], and add_bias, its second half;
// and its forms, which the pass `fuse` makes of two ops: then "gelu", the same and a gelu of it;
// then "add", a tensor plus the same; then "gated", the same and gated(gate, the same).
//
// With a bias there is no row that splits the contraction: the sum of the parts would add the bias
// once for each. The pass `decompose` splits such an op into linear and add_bias.
//
// An op that is `wide` computes in f32 whatever the precision of the plan, as a router does.
//
// x and w may be bf16, and so is the result then, and a bias may be; it is added in f32, before the
// result is rounded.
#include "oneflow_core/op/linear_dims.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

LinearDims LinearGeometry(const OpView& v) {
  const int c = static_cast<int>(AttrInt(v.op, "contract", 1));
  return {v.in(0).shape.rank() - c, c, v.in(1).shape.rank() - c, AttrBool(v.op, "transpose_w")};
}

Specs InferLinear(const OpView& v) {
  const Tensor &x = v.in(0), &w = v.in(1);
  std::vector<std::string> roles = {"x", "w", "bias"};
  roles.resize(v.n_inputs());
  const bool narrow = x.dtype == DType::kBF16;
  RETURN_IF_ERROR(
      ExpectFloat(v, roles, narrow ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, roles, 0, 1));
  const int64_t contract = AttrInt(v.op, "contract", 1);
  if (contract < 1 || contract >= x.shape.rank() || contract >= w.shape.rank()) {
    return Mismatch("attribute \"contract\" is " + std::to_string(contract) + " with " +
                        Describe("x", x) + " and " + Describe("w", w),
                    "it is at least 1 and leaves at least one dimension of each");
  }
  const LinearDims d = LinearGeometry(v);
  const Shape x_c = Part(x.shape, d.lead, d.lead + d.c);
  const Shape w_c = Part(w.shape, d.w_c(), d.w_c() + d.c);
  const Shape w_o = Part(w.shape, d.w_o(), d.w_o() + d.o);
  if (x_c != w_c) {
    const std::string n = std::to_string(d.c);
    return Mismatch(Describe("x", x) + " and " + Describe("w", w) + " do not contract: last " + n +
                        " dim(s) of x " + ToString(x_c) + " against " +
                        (d.transposed ? "last " : "first ") + n + " of w " + ToString(w_c),
                    "make them equal, or change \"contract\" or \"transpose_w\"");
  }
  if (v.n_inputs() > 2) {
    RETURN_IF_ERROR(
        ExpectDims("bias", v.in(2), w_o.dims, "the output dims of " + Describe("w", w)));
  }
  return std::vector<OutputSpec>{{Join(Part(x.shape, 0, d.lead), w_o), x.dtype}};
}

Rows LinearRows(const OpView& v) {
  const LinearDims d = LinearGeometry(v);
  const bool bias = v.n_inputs() > 2;
  Rows rows = LeadRows(v, d.lead, bias ? std::vector<int>{1, 2} : std::vector<int>{1});
  for (int j = 0; j < d.o; ++j) {
    rows.push_back({{B(), S(d.w_o() + j)}, {S(d.lead + j)}});
    if (bias) rows.back().in.push_back(S(j));
  }
  if (bias) return rows;
  for (int j = 0; j < d.c; ++j) rows.push_back({{S(d.lead + j), S(d.w_c() + j)}, {P()}});
  rows.push_back({{P(), B()}, {P()}});
  return rows;
}

// The gradients of a product of inputs 0 and 1, and perhaps a bias, whose output has the gradient
// `dy`.
InputGrads GradientFrom(GradientContext& g, TensorId dy, size_t bias = 2) {
  const Op op = g.graph.ops[g.op];
  const LinearDims d = LinearGeometry({g.graph, op});
  AttrMap attrs = {{"contract", int64_t{d.c}}, {"transpose_w", d.transposed}};
  if (AttrBool(op, "wide")) attrs["wide"] = true;
  std::vector<TensorId> grads(op.inputs.size(), -1);
  if (g.needs_grad[0]) {
    grads[0] = AddGradient(g, "linear_grad_input", ".dx", {dy, op.inputs[1]}, attrs);
  }
  if (g.needs_grad[1]) {
    attrs["lead"] = int64_t{d.lead};
    grads[1] = AddGradient(g, "linear_grad_weight", ".dw", {op.inputs[0], dy}, attrs);
  }
  if (op.inputs.size() > bias && g.needs_grad[bias]) {
    grads[bias] = AddGradient(g, "linear_grad_bias", ".dbias", {dy}, {{"lead", int64_t{d.lead}}});
  }
  return grads;
}

InputGrads LinearGradient(GradientContext& g) { return GradientFrom(g, g.output_grads[0]); }

// Each input beyond the factors is added.
double LinearFlops(const OpView& v) {
  const LinearDims d = LinearGeometry(v);
  const Shape& w = v.in(1).shape;
  const double out = static_cast<double>(Part(w, d.w_o(), d.w_o() + d.o).elements());
  const double product = 2.0 * static_cast<double>(v.in(0).shape.elements()) * out;
  return product + (v.n_inputs() - 2) * static_cast<double>(v.out(0).shape.elements());
}

// --- then "gelu": -> y, gelu(y) ---

Specs InferLinearGelu(const OpView& v) {
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> y, InferLinear(v));
  return std::vector<OutputSpec>{y[0], y[0]};
}

// Those of linear that leave no partial sum, of which there is no gelu.
Rows LinearGeluRows(const OpView& v) {
  Rows rows = LinearRows(v);
  std::erase_if(rows, [](const Signature& row) { return row.out[0].partial(); });
  for (Signature& row : rows) row.out = {row.out[0], row.out[0]};
  return rows;
}

InputGrads LinearGeluGradient(GradientContext& g) {
  const TensorId y = g.graph.ops[g.op].outputs[0];
  TensorId dy = g.output_grads[0];
  if (g.output_grads[1] >= 0) {
    const TensorId through = AddGradient(g, "gelu_grad", ".dy", {g.output_grads[1], y});
    dy = dy < 0 ? through : AddGradient(g, "add_n", ".dy", {dy, through});
  }
  return GradientFrom(g, dy);
}

double LinearGeluFlops(const OpView& v) {
  return LinearFlops(v) + kGeluFlops * static_cast<double>(v.out(0).shape.elements());
}

// --- then "add": x, w, a, (bias) -> a + y ---

Specs InferLinearAdd(const OpView& v) {
  Op product = v.op;
  product.inputs.erase(product.inputs.begin() + 2);
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> y, InferLinear({v.graph, product}));
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "w", "a"}));
  RETURN_IF_ERROR(ExpectDims("a", v.in(2), y[0].shape.dims, "that of x w"));
  return y;
}

Rows LinearAddRows(const OpView& v) {
  const LinearDims d = LinearGeometry(v);
  const bool bias = v.n_inputs() > 3;
  Rows rows = LeadRows(v, d.lead, bias ? std::vector<int>{1, 3} : std::vector<int>{1});
  for (int j = 0; j < d.o; ++j) {
    rows.push_back({{B(), S(d.w_o() + j), S(d.lead + j)}, {S(d.lead + j)}});
    if (bias) rows.back().in.push_back(S(j));
  }
  return rows;
}

InputGrads LinearAddGradient(GradientContext& g) {
  ASSIGN_OR_RETURN(std::vector<TensorId> grads, GradientFrom(g, g.output_grads[0], /*bias=*/3));
  grads[2] = g.output_grads[0];
  return grads;
}

// --- then "gated": x, w, gate, (bias) -> up, act(gate) * up ---

Specs InferLinearGated(const OpView& v) {
  Op product = v.op;
  product.inputs.erase(product.inputs.begin() + 2);
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> up, InferLinear({v.graph, product}));
  RETURN_IF_ERROR(ExpectActivation(v.op, /*fused=*/true));
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "w", "gate"}, {0, 1, 2}));
  RETURN_IF_ERROR(ExpectSameType(v, {"x", "w", "gate"}, 0, 2));
  RETURN_IF_ERROR(ExpectDims("gate", v.in(2), up[0].shape.dims, "that of x w"));
  return std::vector<OutputSpec>{up[0], up[0]};
}

Rows LinearGatedRows(const OpView& v) {
  Rows rows = LinearAddRows(v);
  for (Signature& row : rows) row.out = {row.out[0], row.out[0]};
  return rows;
}

InputGrads LinearGatedGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  const TensorId gate = op.inputs[2], up = op.outputs[0];
  TensorId dgate = -1, dup = g.output_grads[0];
  if (g.output_grads[1] >= 0) {
    dgate = AddGradient(g, "gated_grad", ".dy", {g.output_grads[1], gate, up},
                        {{"activation", AttrString(op, "activation")}}, 2);
    const TensorId through = g.graph.Producer(dgate).outputs[1];
    dup = dup < 0 ? through : AddGradient(g, "add_n", ".dy", {dup, through});
  }
  ASSIGN_OR_RETURN(std::vector<TensorId> grads, GradientFrom(g, dup, /*bias=*/3));
  if (g.needs_grad[2]) grads[2] = dgate >= 0 ? dgate : AddZeros(g, gate);
  return grads;
}

// LinearFlops counts one for the gate.
double LinearGatedFlops(const OpView& v) {
  return LinearFlops(v) + (GatedFlops(v.op) - 1) * static_cast<double>(v.out(0).shape.elements());
}

// --- What one device multiplies ---

ProductSpec LinearProduct(const LocalOp& op) {
  const Dims &x = op.in[0], &w = op.in[1];
  const WeightSides sides = FindWeightSides(op, w);
  const int lead = static_cast<int>(x.size()) - static_cast<int>(AttrInt(op, "contract", 1));
  const std::string_view then = FindThen(op);
  const int bias = then == "add" || then == "gated" ? 3 : 2;
  return {.m = CountElements(x, 0, lead),
          .n = sides.o,
          .k = sides.c,
          .bias_input = static_cast<int>(op.in.size()) > bias ? bias : -1,
          .transpose_b = AttrBool(op, "transpose_w"),
          .then = then == "add"     ? ProductSpec::Then::kAdd
                  : then == "gelu"  ? ProductSpec::Then::kGelu
                  : then == "gated" ? ProductSpec::Then::kGated
                                    : ProductSpec::Then::kNothing,
          .silu = HasSilu(op)};
}

// --- Samples ---

AttrMap Contract(int64_t n, bool transposed) {
  return {{"contract", n}, {"transpose_w", transposed}};
}

Samples LinearSamples(const SampleSizes& s) {
  const SampleTensor x{{s.b, s.t, s.c}}, w{{s.c, s.o}}, bias{{s.o}};
  const SampleTensor heads{{s.heads, s.d, s.c}};
  return {{{x, w}},
          {{x, w, bias}},
          {{x, {{s.o, s.c}}}, Contract(1, true)},
          {{{{s.b, s.t, s.heads, s.d}}, heads}, Contract(2, false)},
          {{{{s.t, s.c}}, heads, {{s.heads, s.d}}}, Contract(1, true)},
          {{x.Narrow(), w.Narrow(), bias}},
          {{x.Narrow(), heads.Narrow()}, Contract(1, true)}};
}

Samples LinearGeluSamples(const SampleSizes& s) {
  const SampleTensor x{{s.b, s.t, s.c}}, w{{s.c, s.o}}, bias{{s.o}};
  return {{{x, w, bias}}, {{x, {{s.o, s.c}}}, Contract(1, true)}, {{x.Narrow(), w.Narrow(), bias}}};
}

Samples LinearAddSamples(const SampleSizes& s) {
  const SampleTensor x{{s.b, s.t, s.c}}, a{{s.b, s.t, s.o}};
  return {{{x, {{s.c, s.o}}, a, {{s.o}}}}, {{x, {{s.o, s.c}}, a}, Contract(1, true)}};
}

Samples LinearGatedSamples(const SampleSizes& s) {
  const SampleTensor x{{s.b, s.t, s.c}}, w{{s.c, s.o}}, gate{{s.b, s.t, s.o}, -4, 4};
  Samples samples;
  for (AttrMap attrs : ActivationAttrs(/*fused=*/true)) {
    samples.push_back({{x, w, gate}, attrs});
    samples.push_back({{x.Narrow(), w.Narrow(), gate.Narrow(), {{s.o}}}, attrs});
    attrs.merge(Contract(1, true));
    samples.push_back({{x, {{s.o, s.c}}, gate, {{s.o}}}, std::move(attrs)});
  }
  return samples;
}

// --- add_bias ---

int BiasLead(const OpView& v) { return v.in(0).shape.rank() - v.in(1).shape.rank(); }

Specs InferAddBias(const OpView& v) {
  const Tensor &y = v.in(0), &bias = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"y", "bias"}, {0}));
  RETURN_IF_ERROR(ExpectRank("bias", bias, 1));
  const int lead = BiasLead(v);
  if (lead < 1 || Part(y.shape, lead, y.shape.rank()) != bias.shape) {
    return Mismatch(
        Describe("bias", bias) + " does not match the last dimensions of " + Describe("y", y),
        "the shape of the bias is the end of y's, without at least one dimension");
  }
  return std::vector<OutputSpec>{{y.shape, y.dtype}};
}

Rows AddBiasRows(const OpView& v) {
  const int lead = BiasLead(v);
  Rows rows = LeadRows(v, lead, {1});
  for (int j = 0; j < v.in(1).shape.rank(); ++j) {
    rows.push_back({{S(lead + j), S(j)}, {S(lead + j)}});
  }
  return rows;
}

InputGrads AddBiasGradient(GradientContext& g) {
  const TensorId dy = g.output_grads[0];
  const int64_t lead = BiasLead({g.graph, g.graph.ops[g.op]});
  std::vector<TensorId> grads = {dy, -1};
  if (g.needs_grad[1]) {
    grads[1] = AddGradient(g, "linear_grad_bias", ".dbias", {dy}, {{"lead", lead}});
  }
  return grads;
}

}  // namespace

std::vector<OpDef> LinearOps() {
  const std::vector<AttrDef> attrs = LinearAttrs();
  std::vector<AttrDef> gated_attrs = attrs;
  gated_attrs.push_back({"activation", AttrType::kString, true});
  return {
      {.kind = "linear",
       .usage = "x[..., c...], w[c..., o...], (bias[o...]) -> [..., o...]",
       .inputs = {2, 3},
       .attrs = attrs,
       .infer = InferLinear,
       .signatures = LinearRows,
       .gradient = LinearGradient,
       .flops = LinearFlops,
       .product = LinearProduct,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kBias},
       .samples = LinearSamples},
      {.kind = "linear",
       .then = "gelu",
       .usage = "x[..., c...], w[c..., o...], (bias[o...]) -> y[..., o...], gelu(y)",
       .inputs = {2, 3},
       .outputs = 2,
       .attrs = attrs,
       .infer = InferLinearGelu,
       .signatures = LinearGeluRows,
       .gradient = LinearGeluGradient,
       .flops = LinearGeluFlops,
       .product = LinearProduct,
       .overwrites = true,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kBias},
       .samples = LinearGeluSamples},
      {.kind = "linear",
       .then = "add",
       .usage = "x[..., c...], w[c..., o...], a[..., o...], (bias[o...]) -> [..., o...]",
       .inputs = {3, 4},
       .attrs = attrs,
       .infer = InferLinearAdd,
       .signatures = LinearAddRows,
       .gradient = LinearAddGradient,
       .flops = LinearFlops,
       .product = LinearProduct,
       .overwrites = true,
       .samples = LinearAddSamples},
      {.kind = "linear",
       .then = "gated",
       .usage = "x[..., c...], w[c..., o...], gate[..., o...], (bias[o...]) -> up[..., o...], "
                "act(gate) * up",
       .inputs = {3, 4},
       .outputs = 2,
       .attrs = gated_attrs,
       .infer = InferLinearGated,
       .signatures = LinearGatedRows,
       .gradient = LinearGatedGradient,
       .flops = LinearGatedFlops,
       .product = LinearProduct,
       .overwrites = true,
       .precision = {Precision::kNarrow, Precision::kNarrow, Precision::kNarrow, Precision::kBias},
       .samples = LinearGatedSamples},
      {.kind = "add_bias",
       .usage = "y[..., o...], bias[o...] -> [..., o...]",
       .inputs = {2},
       .infer = InferAddBias,
       .signatures = AddBiasRows,
       .gradient = AddBiasGradient,
       .flops = PerElement(1),
       .precision = {Precision::kEither, Precision::kWide},
       .exact = true,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor y{{s.b, s.t, s.heads, s.d}}, bias{{s.heads, s.d}};
         return {{{y, bias}}, {{y.Narrow(), bias}}};
       }},
  };
}

}  // namespace oneflow
