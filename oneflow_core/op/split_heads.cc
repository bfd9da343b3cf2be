// Ops on heads for attention without a fused kernel: split_heads makes queries, keys and
// values, a matrix [t, d] a head, of qkv; swap_dims brings the heads of a position together again.
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

constexpr int kParts = 3;  // queries, keys, values

std::vector<Sbp> EachPart(Sbp sbp) { return std::vector<Sbp>(kParts, sbp); }

// [b, heads, t, d] of qkv[b, t, 3, heads, d].
Shape HeadsShape(const Shape& qkv) {
  return Join(Join(Part(qkv, 0, 1), Part(qkv, 3, 4)), Join(Part(qkv, 1, 2), Part(qkv, 4, 5)));
}

Specs InferSplitHeads(const OpView& v) {
  const Tensor& qkv = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"qkv"}, {0}));
  RETURN_IF_ERROR(ExpectQkv(qkv));
  return std::vector<OutputSpec>(kParts, {HeadsShape(qkv.shape), qkv.dtype});
}

// dim i of qkv is dim j of each part.
struct SplitDims {
  int qkv, part;
};
constexpr SplitDims kSplitDims[] = {{0, 0}, {1, 2}, {3, 1}, {4, 3}};

Rows SplitHeadsRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (const SplitDims& p : kSplitDims) rows.push_back({{S(p.qkv)}, EachPart(S(p.part))});
  rows.push_back({{P()}, EachPart(P())});
  return rows;
}

Rows SplitHeadsGradRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (const SplitDims& p : kSplitDims) rows.push_back({EachPart(S(p.part)), {S(p.qkv)}});
  rows.push_back({EachPart(P()), {P()}});
  return rows;
}

InputGrads SplitHeadsGradient(GradientContext& g) {
  const std::vector<TensorId> parts = g.graph.ops[g.op].outputs;
  std::vector<TensorId> grads = g.output_grads;
  for (int i = 0; i < kParts; ++i) {
    if (grads[i] < 0) grads[i] = AddZeros(g, parts[i]);
  }
  return std::vector<TensorId>{AddGradient(g, "split_heads_grad", ".dqkv", grads)};
}

Specs InferSplitHeadsGrad(const OpView& v) {
  const std::vector<std::string> roles = {"dq", "dk", "dv"};
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1, 2}));
  for (int i = 0; i < kParts; ++i) {
    RETURN_IF_ERROR(ExpectSameType(v, roles, 0, i));
    RETURN_IF_ERROR(ExpectDims(roles[i], v.in(i), v.in_dims(0), "that of dq"));
  }
  const Shape& part = v.in(0).shape;
  if (part.rank() != 4) {
    return Mismatch(Describe("dq", v.in(0)) + " must be [batch, heads, seq, head_dim]");
  }
  const Shape lead = Join(Join(Part(part, 0, 1), Part(part, 2, 3)), Shape{kParts});
  return std::vector<OutputSpec>{
      {Join(lead, Join(Part(part, 1, 2), Part(part, 3, 4))), v.in(0).dtype}};
}

Specs InferSwapDims(const OpView& v) {
  const Tensor& x = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"x"}, {0}));
  RETURN_IF_ERROR(ExpectRank("x", x, 3));
  const Shape swapped = Join(Part(x.shape, 2, 3), Part(x.shape, 1, 2));
  return std::vector<OutputSpec>{
      {Join(Join(Part(x.shape, 0, 1), swapped), Part(x.shape, 3, x.shape.rank())), x.dtype}};
}

Rows SwapDimsRows(const OpView& v) {
  Rows rows = LinearAlikeRows(v);
  for (Signature& row : rows) {
    Sbp& out = row.out[0];
    if (out.split() && (out.dim == 1 || out.dim == 2)) out = S(3 - out.dim);
  }
  return rows;
}

InputGrads SwapDimsGradient(GradientContext& g) {
  return std::vector<TensorId>{AddGradient(g, "swap_dims", ".dx", {g.output_grads[0]})};
}

}  // namespace

std::vector<OpDef> SplitHeadsOps() {
  return {{.kind = "split_heads",
           .usage = "qkv[b, t, 3, heads, d] -> q, k, v, each [b, heads, t, d]",
           .inputs = {1},
           .outputs = kParts,
           .infer = InferSplitHeads,
           .signatures = SplitHeadsRows,
           .gradient = SplitHeadsGradient,
           .flops = PerElement(0),
           .precision = {Precision::kNarrow},
           .exact = true,
           .samples =
               [](const SampleSizes& s) {
                 return AlsoNarrow({{{{{s.b, s.t, 3, s.heads, s.d}}}}});
               }},
          {.kind = "split_heads_grad",
           .usage = "dq, dk, dv -> dqkv",
           .inputs = {kParts},
           .infer = InferSplitHeadsGrad,
           .signatures = SplitHeadsGradRows,
           .flops = PerElement(0),
           .precision = {Precision::kNarrow},
           .exact = true,
           .samples =
               [](const SampleSizes& s) {
                 const SampleTensor part{{s.b, s.heads, s.t, s.d}};
                 return AlsoNarrow({{{part, part, part}}});
               }},
          {.kind = "swap_dims",
           .usage = "x[a, b, c, ...] -> y[a, c, b, ...]",
           .inputs = {1},
           .infer = InferSwapDims,
           .signatures = SwapDimsRows,
           .gradient = SwapDimsGradient,
           .flops = PerElement(0),
           .precision = {Precision::kEither},
           .exact = true,
           .samples = [](const SampleSizes& s) {
             return AlsoNarrow({{{{{s.b, s.t, s.heads, s.d}}}}});
           }}};
}

}  // namespace oneflow
