// split_qkv: a packed qkv -> queries, keys and values, with the dimensions in their order;
// join_qkv is its inverse and its gradient. Two packings:
//
//   parts first   qkv[b, t, 3, heads, d]   q, k, v, each [b, t, heads, d]
//   by group      qkv[b, t, g, r + 2, d]   q[b, t, g, r, d], k[b, t, g, d], v[b, t, g, d]
//
// The second has the r query heads of a group, its key and its value side by side.
#include "oneflow_core/op/attention_dims.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

constexpr int kSplitQkvParts = 3;  // queries, keys, values

bool PartsFirst(const OpView& v) { return AttrBool(v.op, "parts_first"); }

Specs InferSplit(const OpView& v) {
  RETURN_IF_ERROR(ExpectFloat(v, {"qkv"}, {0}));
  ASSIGN_OR_RETURN(const QkvShapes parts, SplitQkv(v.in(0), PartsFirst(v)));
  const DType dtype = v.in(0).dtype;
  return std::vector<OutputSpec>{{parts.q, dtype}, {parts.k, dtype}, {parts.v, dtype}};
}

// Dimension `qkv` of the packed tensor is dimension `q` of the queries and `kv` of the others.
struct SameDim {
  int qkv, q, kv;
};
std::vector<SameDim> SameDims(const OpView& v) {
  if (PartsFirst(v)) return {{0, 0, 0}, {1, 1, 1}, {3, 2, 2}, {4, 3, 3}};
  return {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {4, 4, 3}};
}

Rows SplitRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (const SameDim& i : SameDims(v)) rows.push_back({{S(i.qkv)}, {S(i.q), S(i.kv), S(i.kv)}});
  rows.push_back({{P()}, {P(), P(), P()}});
  return rows;
}

Rows JoinRows(const OpView& v) {
  Rows rows = {AllB(v)};
  for (const SameDim& i : SameDims(v)) rows.push_back({{S(i.q), S(i.kv), S(i.kv)}, {S(i.qkv)}});
  rows.push_back({{P(), P(), P()}, {P()}});
  return rows;
}

InputGrads SplitGradient(GradientContext& g) {
  const Op op = g.graph.ops[g.op];
  std::vector<TensorId> grads = g.output_grads;
  for (int i = 0; i < kSplitQkvParts; ++i) {
    if (grads[i] < 0) grads[i] = AddZeros(g, op.outputs[i]);
  }
  const bool parts_first = AttrBool(op, "parts_first");
  return std::vector<TensorId>{
      AddGradient(g, "join_qkv", ".dqkv", grads, {{"parts_first", parts_first}})};
}

Specs SplitQkvInferJoin(const OpView& v) {
  const std::vector<std::string> roles = {"dq", "dk", "dv"};
  RETURN_IF_ERROR(ExpectFloat(v, roles, {0, 1, 2}));
  for (int i = 1; i < kSplitQkvParts; ++i) RETURN_IF_ERROR(ExpectSameType(v, roles, 0, i));
  const Shape& q = v.in(0).shape;
  const bool parts_first = PartsFirst(v);
  if (q.rank() != (parts_first ? 4 : 5)) {
    return Mismatch(Describe("dq", v.in(0)) + " must be [batch, seq, " +
                    (parts_first ? "heads" : "groups, heads of a group") + ", head_dim]");
  }
  const Shape kv = Join(Part(q, 0, 3), Part(q, q.rank() - 1, q.rank()));
  for (int i = 1; i < kSplitQkvParts; ++i) {
    RETURN_IF_ERROR(
        ExpectDims(roles[i], v.in(i), kv.dims, "as follows from " + Describe("dq", v.in(0))));
  }
  if (parts_first) {
    return std::vector<OutputSpec>{
        {Join(Join(Part(q, 0, 2), Shape{kSplitQkvParts}), Part(q, 2, 4)), v.in(0).dtype}};
  }
  return std::vector<OutputSpec>{
      {Join(Join(Part(q, 0, 3), Shape{q.dims[3] + 2}), Part(q, 4, 5)), v.in(0).dtype}};
}

}  // namespace

std::vector<OpDef> SplitQkvOps() {
  const std::vector<AttrDef> attrs = {{"parts_first", AttrType::kBool, /*required=*/true}};
  return {{.kind = "split_qkv",
           .usage = "qkv[b, t, 3, heads, d] or qkv[b, t, g, r + 2, d] -> q, k, v",
           .inputs = {1},
           .outputs = kSplitQkvParts,
           .attrs = attrs,
           .infer = InferSplit,
           .signatures = SplitRows,
           .gradient = SplitGradient,
           .flops = PerElement(0),
           .precision = {Precision::kNarrow},
           .samples =
               [](const SampleSizes& s) {
                 return AlsoNarrow({{{{{s.b, s.t, 3, s.heads, s.d}}}, {{"parts_first", true}}},
                                    {{{{s.b, s.t, s.heads, 4, s.d}}}, {{"parts_first", false}}}});
               }},
          {.kind = "join_qkv",
           .usage = "dq, dk, dv -> dqkv",
           .inputs = {kSplitQkvParts},
           .attrs = attrs,
           .infer = SplitQkvInferJoin,
           .signatures = JoinRows,
           .flops = PerElement(0),
           .precision = {Precision::kNarrow},
           .samples = [](const SampleSizes& s) {
             const SampleTensor q{{s.b, s.t, s.heads, s.d}}, heads{{s.b, s.t, s.heads, 2, s.d}};
             return AlsoNarrow(
                 {{{q, q, q}, {{"parts_first", true}}}, {{heads, q, q}, {{"parts_first", false}}}});
           }}};
}

}  // namespace oneflow
