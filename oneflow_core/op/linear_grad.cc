// The gradients of linear: of its input and of its weight are two ops, so that a schedule may put
// the second off; of its bias a third. linear_gelu_grad_input is the first and the gelu_grad of
// what it gives, which the pass `fuse` makes of the two. All read bf16, too; what adds up over
// micro-batches, the gradients of weight and bias, is f32 then.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/linear_dims.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// --- linear_grad_input: dy[..., o...], w -> dx[..., c...] ---

LinearDims InputGeometry(const OpView& v) {
  const int c = static_cast<int>(AttrInt(v.op, "contract", 1));
  const int o = v.in(1).shape.rank() - c;
  return {v.in(0).shape.rank() - o, c, o, AttrBool(v.op, "transpose_w")};
}

Specs InferGradInput(const OpView& v) {
  const Tensor &dy = v.in(0), &w = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "w"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"dy", "w"}, 0, 1));
  const int64_t contract = AttrInt(v.op, "contract", 1);
  const LinearDims d = InputGeometry(v);
  if (contract < 1 || contract >= w.shape.rank() || d.lead < 1) {
    return Mismatch("attribute \"contract\" is " + std::to_string(contract) + " with " +
                    Describe("dy", dy) + " and " + Describe("w", w));
  }
  const Shape dy_o = Part(dy.shape, d.lead, d.lead + d.o);
  const Shape w_o = Part(w.shape, d.w_o(), d.w_o() + d.o);
  if (dy_o != w_o) {
    return Mismatch(Describe("dy", dy) + " and " + Describe("w", w) + " do not contract: last " +
                    std::to_string(d.o) + " dim(s) of dy " + ToString(dy_o) + " against " +
                    ToString(w_o) + " of w");
  }
  const Shape w_c = Part(w.shape, d.w_c(), d.w_c() + d.c);
  return std::vector<OutputSpec>{{Join(Part(dy.shape, 0, d.lead), w_c), dy.dtype}};
}

Rows GradInputRows(const OpView& v) {
  const LinearDims d = InputGeometry(v);
  Rows rows = LeadRows(v, d.lead, {1});
  for (int j = 0; j < d.o; ++j) rows.push_back({{S(d.lead + j), S(d.w_o() + j)}, {P()}});
  for (int j = 0; j < d.c; ++j) rows.push_back({{B(), S(d.w_c() + j)}, {S(d.lead + j)}});
  rows.push_back({{P(), B()}, {P()}});
  return rows;
}

double GradInputFlops(const OpView& v) {
  const LinearDims d = InputGeometry(v);
  const double c = static_cast<double>(Part(v.in(1).shape, d.w_c(), d.w_c() + d.c).elements());
  return 2.0 * static_cast<double>(v.in(0).shape.elements()) * c;
}

// --- linear_gelu_grad_input: dy[..., o...], w, x[..., c...] -> dx = gelu'(x) dgelu(x) ---

Specs InferGeluGradInput(const OpView& v) {
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> dx, InferGradInput(v));
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "w", "x"}, {0, 1, 2}));
  RETURN_IF_ERROR(ExpectSameType(v, {"dy", "w", "x"}, 0, 2));
  RETURN_IF_ERROR(ExpectDims("x", v.in(2), dx[0].shape.dims, "that of dy w'"));
  return dx;
}

// Those of linear_grad_input that leave no partial sum; x has the layout of the result.
Rows GeluGradInputRows(const OpView& v) {
  Rows rows = GradInputRows(v);
  std::erase_if(rows, [](const Signature& row) { return row.out[0].partial(); });
  for (Signature& row : rows) {
    row.in.resize(3);
    row.in[2] = row.out[0];
  }
  return rows;
}

double GeluGradInputFlops(const OpView& v) {
  return GradInputFlops(v) + kGeluGradFlops * static_cast<double>(v.out(0).shape.elements());
}

// --- linear_grad_weight: x[..., c...], dy[..., o...] -> dw, shaped as w ---

LinearDims WeightGeometry(const OpView& v) {
  const int lead = static_cast<int>(AttrInt(v.op, "lead", 1));
  return {lead, v.in(0).shape.rank() - lead, v.in(1).shape.rank() - lead,
          AttrBool(v.op, "transpose_w")};
}

Specs InferGradWeight(const OpView& v) {
  const Tensor &x = v.in(0), &dy = v.in(1);
  RETURN_IF_ERROR(ExpectFloat(v, {"x", "dy"}, {0, 1}));
  RETURN_IF_ERROR(ExpectSameType(v, {"x", "dy"}, 0, 1));
  const int64_t lead = AttrInt(v.op, "lead"), contract = AttrInt(v.op, "contract", 1);
  if (lead < 1 || lead >= dy.shape.rank() || contract < 1 || x.shape.rank() - lead != contract) {
    return Mismatch("attributes \"lead\" " + std::to_string(lead) + " and \"contract\" " +
                    std::to_string(contract) + " do not fit " + Describe("x", x) + " and " +
                    Describe("dy", dy));
  }
  const LinearDims d = WeightGeometry(v);
  if (Part(x.shape, 0, d.lead) != Part(dy.shape, 0, d.lead)) {
    return Mismatch(Describe("x", x) + " and " + Describe("dy", dy) + " differ in their first " +
                    std::to_string(d.lead) + " dim(s)");
  }
  const Shape c = Part(x.shape, d.lead, d.lead + d.c), o = Part(dy.shape, d.lead, d.lead + d.o);
  return std::vector<OutputSpec>{
      {d.transposed ? Join(o, c) : Join(c, o), AccumulationType(x.dtype)}};
}

Rows GradWeightRows(const OpView& v) {
  const LinearDims d = WeightGeometry(v);
  Rows rows = {AllB(v)};
  for (int i = 0; i < d.lead; ++i) rows.push_back({{S(i), S(i)}, {P()}});
  for (int j = 0; j < d.c; ++j) rows.push_back({{S(d.lead + j), B()}, {S(d.w_c() + j)}});
  for (int j = 0; j < d.o; ++j) rows.push_back({{B(), S(d.lead + j)}, {S(d.w_o() + j)}});
  rows.push_back({{B(), P()}, {P()}});
  rows.push_back({{P(), B()}, {P()}});
  return rows;
}

double GradWeightFlops(const OpView& v) {
  const LinearDims d = WeightGeometry(v);
  const double o = static_cast<double>(Part(v.in(1).shape, d.lead, d.lead + d.o).elements());
  return 2.0 * static_cast<double>(v.in(0).shape.elements()) * o;
}

// --- linear_grad_bias: dy[..., o...] -> dbias[o...] ---

Specs InferGradBias(const OpView& v) {
  const Tensor& dy = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"dy"}, {0}));
  const int64_t lead = AttrInt(v.op, "lead");
  if (lead < 1 || lead >= dy.shape.rank()) {
    return Mismatch("attribute \"lead\" is " + std::to_string(lead) + " with " +
                    Describe("dy", dy));
  }
  return std::vector<OutputSpec>{
      {Part(dy.shape, static_cast<int>(lead), dy.shape.rank()), AccumulationType(dy.dtype)}};
}

Rows GradBiasRows(const OpView& v) {
  const int lead = static_cast<int>(AttrInt(v.op, "lead"));
  Rows rows = {AllB(v)};
  for (int i = 0; i < lead; ++i) rows.push_back({{S(i)}, {P()}});
  for (int i = lead; i < v.in(0).shape.rank(); ++i) rows.push_back({{S(i)}, {S(i - lead)}});
  rows.push_back({{P()}, {P()}});
  return rows;
}

}  // namespace

std::vector<OpDef> LinearGradOps() {
  return {
      {.kind = "linear_grad_input",
       .usage = "dy[..., o...], w -> dx[..., c...]",
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"contract", AttrType::kInt}, {"transpose_w", AttrType::kBool}},
       .infer = InferGradInput,
       .signatures = GradInputRows,
       .flops = GradInputFlops,
       .products = Products::kOne},
      {.kind = "linear_gelu_grad_input",
       .usage = "dy[..., o...], w, x[..., c...] -> dx[..., c...]",
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = {{"contract", AttrType::kInt}, {"transpose_w", AttrType::kBool}},
       .infer = InferGeluGradInput,
       .signatures = GeluGradInputRows,
       .flops = GeluGradInputFlops,
       .products = Products::kOne,
       .overwrites = true},
      {.kind = "linear_grad_weight",
       .usage = "x[..., c...], dy[..., o...] -> dw, shaped as w",
       .min_inputs = 2,
       .max_inputs = 2,
       .attrs = {{"contract", AttrType::kInt},
                 {"transpose_w", AttrType::kBool},
                 {"lead", AttrType::kInt, true}},
       .infer = InferGradWeight,
       .signatures = GradWeightRows,
       .flops = GradWeightFlops,
       .products = Products::kOne},
      {.kind = "linear_grad_bias",
       .usage = "dy[..., o...] -> dbias[o...]",
       .min_inputs = 1,
       .max_inputs = 1,
       .attrs = {{"lead", AttrType::kInt, true}},
       .infer = InferGradBias,
       .signatures = GradBiasRows,
       .flops = PerElement(1)},
  };
}

}  // namespace oneflow
