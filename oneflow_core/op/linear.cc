// linear: x[..., c...] w[c..., o...] (+ bias[o...]) -> [..., o...], and add_bias, its second half;
// linear_gelu: the same and a gelu of it; linear_add: a tensor plus the same. The pass `fuse` makes
// these of two ops.
//
// With a bias there is no row that splits the contraction: the sum of the parts would add the bias
// once for each. The pass `decompose` splits such an op into linear and add_bias.
//
// x and w may be bf16, and so is the result then, and a bias may be; it is added in f32, before the
// result is rounded.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/linear_dims.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

LinearDims Geometry(const OpView& v) {
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
  const LinearDims d = Geometry(v);
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
  const LinearDims d = Geometry(v);
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
  const LinearDims d = Geometry({g.graph, op});
  AttrMap attrs = {{"contract", int64_t{d.c}}, {"transpose_w", d.transposed}};
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
  const LinearDims d = Geometry(v);
  const Shape& w = v.in(1).shape;
  const double out = static_cast<double>(Part(w, d.w_o(), d.w_o() + d.o).elements());
  const double product = 2.0 * static_cast<double>(v.in(0).shape.elements()) * out;
  return product + (v.n_inputs() - 2) * static_cast<double>(v.out(0).shape.elements());
}

// --- linear_gelu: -> y, gelu(y) ---

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

// --- linear_add: x, w, a, (bias) -> a + y ---

Specs InferLinearAdd(const OpView& v) {
  Op product = v.op;
  product.inputs.erase(product.inputs.begin() + 2);
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> y, InferLinear({v.graph, product}));
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "w", "a"}));
  RETURN_IF_ERROR(ExpectDims("a", v.in(2), y[0].shape.dims, "that of x w"));
  return y;
}

Rows LinearAddRows(const OpView& v) {
  const LinearDims d = Geometry(v);
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
  if (g.needs_grad[2]) grads[2] = g.output_grads[0];
  return grads;
}

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
  std::vector<TensorId> grads = {g.needs_grad[0] ? dy : -1, -1};
  if (g.needs_grad[1]) {
    grads[1] = AddGradient(g, "linear_grad_bias", ".dbias", {dy}, {{"lead", lead}});
  }
  return grads;
}

}  // namespace

std::vector<OpDef> LinearOps() {
  return {
      {.kind = "linear",
       .usage = "x[..., c...], w[c..., o...], (bias[o...]) -> [..., o...]",
       .min_inputs = 2,
       .max_inputs = 3,
       .attrs = {{"contract", AttrType::kInt}, {"transpose_w", AttrType::kBool}},
       .infer = InferLinear,
       .signatures = LinearRows,
       .gradient = LinearGradient,
       .flops = LinearFlops,
       .products = Products::kOne},
      {.kind = "linear_gelu",
       .usage = "x[..., c...], w[c..., o...], (bias[o...]) -> y[..., o...], gelu(y)",
       .min_inputs = 2,
       .max_inputs = 3,
       .outputs = 2,
       .attrs = {{"contract", AttrType::kInt}, {"transpose_w", AttrType::kBool}},
       .infer = InferLinearGelu,
       .signatures = LinearGeluRows,
       .gradient = LinearGeluGradient,
       .flops = LinearGeluFlops,
       .products = Products::kOne,
       .overwrites = true},
      {.kind = "linear_add",
       .usage = "x[..., c...], w[c..., o...], a[..., o...], (bias[o...]) -> [..., o...]",
       .min_inputs = 3,
       .max_inputs = 4,
       .attrs = {{"contract", AttrType::kInt}, {"transpose_w", AttrType::kBool}},
       .infer = InferLinearAdd,
       .signatures = LinearAddRows,
       .gradient = LinearAddGradient,
       .flops = LinearFlops,
       .products = Products::kOne,
       .overwrites = true},
      {.kind = "add_bias",
       .usage = "y[..., o...], bias[o...] -> [..., o...]",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = InferAddBias,
       .signatures = AddBiasRows,
       .gradient = AddBiasGradient,
       .flops = PerElement(1)},
  };
}

}  // namespace oneflow
