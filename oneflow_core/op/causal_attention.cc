// causal_attention: qkv[b, t, 3, heads, d] -> out[b, t, heads, d], lse[b, heads, t]. Position i
// sees positions 0 .. i; lse, the log of each row's sum, is what the gradient recomputes the scores
// from.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

Shape OutShape(const Shape& qkv) { return Join(Part(qkv, 0, 2), Part(qkv, 3, 5)); }
Shape LseShape(const Shape& qkv) {
  return Join(Join(Part(qkv, 0, 1), Part(qkv, 3, 4)), Part(qkv, 1, 2));
}

Specs InferAttention(const OpView& v) {
  const Tensor& qkv = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"qkv"}, {0}));
  RETURN_IF_ERROR(ExpectQkv(qkv));
  return std::vector<OutputSpec>{{OutShape(qkv.shape), qkv.dtype},
                                 {LseShape(qkv.shape), AccumulationType(qkv.dtype)}};
}

// Samples and heads are independent; positions are not.
Rows AttentionRows(const OpView& v) {
  return {AllB(v), {{S(0)}, {S(0), S(0)}}, {{S(3)}, {S(2), S(1)}}};
}

InputGrads AttentionGradient(GradientContext& g) {
  RETURN_IF_ERROR(OnlyFirstOutput(g, "the lse of a causal_attention"));
  if (!g.needs_grad[0]) return std::vector<TensorId>{-1};
  const Op op = g.graph.ops[g.op];
  return std::vector<TensorId>{
      AddGradient(g, "causal_attention_grad", ".dqkv",
                  {g.output_grads[0], op.inputs[0], op.outputs[0], op.outputs[1]})};
}

Specs InferAttentionGrad(const OpView& v) {
  const Tensor& qkv = v.in(1);
  const std::vector<std::string> roles = {"dout", "qkv", "out", "lse"};
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1, 2}));
  RETURN_IF_ERROR(ExpectSameType(v, roles, 0, 1));
  RETURN_IF_ERROR(ExpectSameType(v, roles, 0, 2));
  RETURN_IF_ERROR(ExpectQkv(qkv));
  const std::string of = "as follows from " + Describe("qkv", qkv);
  RETURN_IF_ERROR(ExpectDims("dout", v.in(0), OutShape(qkv.shape).dims, of));
  RETURN_IF_ERROR(ExpectDims("out", v.in(2), OutShape(qkv.shape).dims, of));
  RETURN_IF_ERROR(ExpectDims("lse", v.in(3), LseShape(qkv.shape).dims, of));
  return std::vector<OutputSpec>{{qkv.shape, qkv.dtype}};
}

Rows AttentionGradRows(const OpView& v) {
  return {AllB(v), {{S(0), S(0), S(0), S(0)}, {S(0)}}, {{S(2), S(3), S(2), S(1)}, {S(3)}}};
}

// Pairs (position, seen position) over samples and heads, times d: t (t + 1) / 2 pairs, the causal
// half that is computed, not the t^2 of the dense matrix. Each product costs 2 a pair and element.
double CausalElements(const Dims& qkv) {
  const double b = static_cast<double>(qkv[0]), t = static_cast<double>(qkv[1]);
  const double heads = static_cast<double>(qkv[3]), d = static_cast<double>(qkv[4]);
  return b * heads * t * (t + 1) / 2 * d;
}

// Two products: scores and weighted values.
double AttentionFlops(const OpView& v) { return 2 * 2 * CausalElements(v.in_dims(0)); }
// Five: scores again, and the gradients of weights, values, queries and keys.
double AttentionGradFlops(const OpView& v) { return 5 * 2 * CausalElements(v.in_dims(1)); }

}  // namespace

std::vector<OpDef> CausalAttentionOps() {
  return {
      {.kind = "causal_attention",
       .usage = "qkv[b, t, 3, heads, d] -> out[b, t, heads, d], lse[b, heads, t]",
       .min_inputs = 1,
       .max_inputs = 1,
       .outputs = 2,
       .infer = InferAttention,
       .signatures = AttentionRows,
       .gradient = AttentionGradient,
       .flops = AttentionFlops,
       .products = Products::kOwn,
       .overwrites = true},
      {.kind = "causal_attention_grad",
       .usage = "dout, qkv, out, lse -> dqkv",
       .min_inputs = 4,
       .max_inputs = 4,
       .infer = InferAttentionGrad,
       .signatures = AttentionGradRows,
       .flops = AttentionGradFlops,
       .products = Products::kOwn,
       .overwrites = true},
  };
}

}  // namespace oneflow
