// The gradients of linear: of its input and of its weight are two ops, so that a schedule may put
// the second off; of its bias a third. The first has forms then "gelu_grad" and then "gated_grad",
// these gradients of what it gives, which the pass `fuse` makes of two ops. All read bf16, too;
// what adds up over micro-batches, the gradients of weight and bias, is f32 then.
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/linear_dims.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// --- linear_grad_input: dy[..., o...], w -> dx[..., c...] ---

LinearDims InputGeometry(const OpView& v) {
  const int c = static_cast<int>(AttrInt(v.op, "contract", 1));
  const int o = v.in(1).shape.rank() - c;
  return {v.in(0).shape.rank() - o, c, o, AttrBool(v.op, "transpose_w")};
}

Specs LinearGradInferGradInput(const OpView& v) {
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

Rows LinearGradInputRows(const OpView& v) {
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

ProductSpec GradInputProduct(const LocalOp& op) {
  const Dims &dy = op.in[0], &w = op.in[1];
  const WeightSides sides = FindWeightSides(op, w);
  const int o = static_cast<int>(w.size()) - static_cast<int>(AttrInt(op, "contract", 1));
  const std::string_view then = FindThen(op);
  return {.m = CountElements(dy, 0, static_cast<int>(dy.size()) - o),
          .n = sides.c,
          .k = sides.o,
          .transpose_b = !AttrBool(op, "transpose_w"),
          .then = then.empty()          ? ProductSpec::Then::kNothing
                  : then == "gelu_grad" ? ProductSpec::Then::kGeluGrad
                                        : ProductSpec::Then::kGatedGrad,
          .silu = HasSilu(op)};
}

Samples LinearGradInputSamples(const SampleSizes& s) {
  const SampleTensor dy{{s.b, s.t, s.heads, s.d}}, w{{s.c, s.heads, s.d}};
  return {{{dy, w}},
          {{{{s.b, s.t, s.c}}, w}, {{"contract", int64_t{2}}, {"transpose_w", true}}},
          {{dy.Narrow(), w.Narrow()}}};
}

// --- then "gelu_grad": dy[..., o...], w, x[..., c...] -> dx = gelu'(x) dgelu(x) ---

Specs InferGeluGradInput(const OpView& v) {
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> dx, LinearGradInferGradInput(v));
  RETURN_IF_ERROR(ExpectFloat(v, {"dy", "w", "x"}, {0, 1, 2}));
  RETURN_IF_ERROR(ExpectSameType(v, {"dy", "w", "x"}, 0, 2));
  RETURN_IF_ERROR(ExpectDims("x", v.in(2), dx[0].shape.dims, "that of dy w'"));
  return dx;
}

// Those of linear_grad_input that leave no partial sum; x has the layout of the result.
Rows GeluGradInputRows(const OpView& v) {
  Rows rows = LinearGradInputRows(v);
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

// --- then "gated_grad": dy[..., o...], w, gate[..., c...], up[..., c...] -> dgate, dup ---

Specs InferGatedGradInput(const OpView& v) {
  ASSIGN_OR_RETURN(const std::vector<OutputSpec> dx, LinearGradInferGradInput(v));
  const std::vector<std::string> roles = {"dy", "w", "gate", "up"};
  RETURN_IF_ERROR(ExpectActivation(v.op, /*fused=*/true));
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1, 2, 3}));
  for (const int i : {2, 3}) {
    RETURN_IF_ERROR(ExpectSameType(v, roles, 0, i));
    RETURN_IF_ERROR(ExpectDims(roles[i], v.in(i), dx[0].shape.dims, "that of dy w'"));
  }
  return std::vector<OutputSpec>{dx[0], dx[0]};
}

Rows GatedGradInputRows(const OpView& v) {
  Rows rows = GeluGradInputRows(v);
  for (Signature& row : rows) {
    row.in = {row.in[0], row.in[1], row.out[0], row.out[0]};
    row.out = {row.out[0], row.out[0]};
  }
  return rows;
}

double GatedGradInputFlops(const OpView& v) {
  return GradInputFlops(v) + GatedGradFlops(v.op) * static_cast<double>(v.out(0).shape.elements());
}

Samples GatedGradInputSamples(const SampleSizes& s) {
  const SampleTensor dy{{s.b, s.t, s.o}}, w{{s.c, s.o}}, up{{s.b, s.t, s.c}};
  const SampleTensor gate{{s.b, s.t, s.c}, -4, 4};
  Samples samples;
  for (AttrMap& attrs : ActivationAttrs(/*fused=*/true)) {
    samples.push_back({{dy, w, gate, up}, std::move(attrs)});
  }
  return AlsoNarrow(samples);
}

// --- linear_grad_weight: x[..., c...], dy[..., o...] -> dw, shaped as w ---

LinearDims WeightGeometry(const OpView& v) {
  const int lead = static_cast<int>(AttrInt(v.op, "lead", 1));
  return {lead, v.in(0).shape.rank() - lead, v.in(1).shape.rank() - lead,
          AttrBool(v.op, "transpose_w")};
}

Specs LinearGradInferGradWeight(const OpView& v) {
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

Rows LinearGradWeightRows(const OpView& v) {
  const LinearDims d = WeightGeometry(v);
  Rows rows = {AllB(v)};
  for (int i = 0; i < d.lead; ++i) rows.push_back({{S(i), S(i)}, {P()}});
  for (int j = 0; j < d.c; ++j) rows.push_back({{S(d.lead + j), B()}, {S(d.w_c() + j)}});
  for (int j = 0; j < d.o; ++j) rows.push_back({{B(), S(d.lead + j)}, {S(d.w_o() + j)}});
  rows.push_back({{B(), P()}, {P()}});
  rows.push_back({{P(), B()}, {P()}});
  return rows;
}

double LinearGradWeightFlops(const OpView& v) {
  const LinearDims d = WeightGeometry(v);
  const double o = static_cast<double>(Part(v.in(1).shape, d.lead, d.lead + d.o).elements());
  return 2.0 * static_cast<double>(v.in(0).shape.elements()) * o;
}

// xT dy, or dyT x where w is transposed.
ProductSpec GradWeightProduct(const LocalOp& op) {
  const WeightSides w = FindWeightSides(op, op.out[0]);
  const int64_t lead = CountElements(op.in[0], 0, static_cast<int>(AttrInt(op, "lead")));
  if (AttrBool(op, "transpose_w")) {
    return {.m = w.o, .n = w.c, .k = lead, .a_input = 1, .b_input = 0, .transpose_a = true};
  }
  return {.m = w.c, .n = w.o, .k = lead, .transpose_a = true};
}

Samples LinearGradWeightSamples(const SampleSizes& s) {
  const SampleTensor x{{s.b, s.t, s.c}}, dy{{s.b, s.t, s.heads, s.d}};
  const AttrMap attrs = {{"contract", int64_t{1}}, {"transpose_w", false}, {"lead", int64_t{2}}};
  return {{{x, dy}, attrs},
          {{{{s.b, s.heads, s.d}}, {{s.b, s.c}}},
           {{"contract", int64_t{2}}, {"transpose_w", true}, {"lead", int64_t{1}}}},
          {{x.Narrow(), dy.Narrow()}, attrs}};
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
  const std::vector<AttrDef> attrs = LinearAttrs();
  std::vector<AttrDef> gated_attrs = attrs;
  gated_attrs.push_back({"activation", AttrType::kString, true});
  return {
      {.kind = "linear_grad_input",
       .usage = "dy[..., o...], w -> dx[..., c...]",
       .inputs = {2},
       .attrs = attrs,
       .infer = LinearGradInferGradInput,
       .signatures = LinearGradInputRows,
       .flops = GradInputFlops,
       .product = GradInputProduct,
       .precision = {Precision::kNarrow},
       .samples = LinearGradInputSamples},
      {.kind = "linear_grad_input",
       .then = "gelu_grad",
       .usage = "dy[..., o...], w, x[..., c...] -> dx[..., c...]",
       .inputs = {3},
       .attrs = attrs,
       .infer = InferGeluGradInput,
       .signatures = GeluGradInputRows,
       .flops = GeluGradInputFlops,
       .product = GradInputProduct,
       .overwrites = true,
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor dy{{s.b, s.t, s.o}}, w{{s.c, s.o}}, x{{s.b, s.t, s.c}, -4, 4};
         return {{{dy, w, x}}, {{dy.Narrow(), w.Narrow(), x.Narrow()}}};
       }},
      {.kind = "linear_grad_input",
       .then = "gated_grad",
       .usage = "dy[..., o...], w, gate[..., c...], up[..., c...] -> dgate, dup",
       .inputs = {4},
       .outputs = 2,
       .attrs = gated_attrs,
       .infer = InferGatedGradInput,
       .signatures = GatedGradInputRows,
       .flops = GatedGradInputFlops,
       .product = GradInputProduct,
       .overwrites = true,
       .precision = {Precision::kNarrow},
       .samples = GatedGradInputSamples},
      {.kind = "linear_grad_weight",
       .usage = "x[..., c...], dy[..., o...] -> dw, shaped as w",
       .inputs = {2},
       .attrs = {{"contract", AttrType::kInt},
                 {"transpose_w", AttrType::kBool},
                 {"lead", AttrType::kInt, true},
                 {"wide", AttrType::kBool}},
       .infer = LinearGradInferGradWeight,
       .signatures = LinearGradWeightRows,
       .flops = LinearGradWeightFlops,
       .product = GradWeightProduct,
       .precision = {Precision::kNarrow},
       .samples = LinearGradWeightSamples},
      {.kind = "linear_grad_bias",
       .usage = "dy[..., o...] -> dbias[o...]",
       .inputs = {1},
       .attrs = {{"lead", AttrType::kInt, true}},
       .infer = InferGradBias,
       .signatures = GradBiasRows,
       .flops = PerElement(1),
       .precision = {Precision::kEither},
       .cuda_workspace =
           [](const LocalOp& op) {
             const int64_t width = Product(op.out[0]);
             return width == 0 ? 0 : ColumnSumsScratch(Product(op.in[0]) / width, width);
           },
       .samples = [](const SampleSizes& s) -> Samples {
         const SampleTensor dy{{s.b, s.t, s.heads, s.d}};
         const AttrMap attrs = {{"lead", int64_t{2}}};
         return {{{dy}, attrs}, {{dy.Narrow()}, attrs}};
       }},
  };
}

}  // namespace oneflow
