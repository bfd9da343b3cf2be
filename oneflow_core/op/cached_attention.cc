// cached_attention: cache[b, 2, heads, T, d], qkv[b, t, 3, heads, d], position[1] -> cache, out[b,
// t, heads, d]. The keys and values of t new positions, the first of them `position`, enter the
// cache, and each new position sees all positions up to itself: what causal_attention gives for
// them when it sees the whole text. New positions at T and beyond are padding: they enter nothing.
#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

Specs InferCached(const OpView& v) {
  const Tensor &cache = v.in(0), &qkv = v.in(1), &position = v.in(2);
  RETURN_IF_ERROR(ExpectFloat(v, {"cache", "qkv"}));
  if (qkv.shape.rank() != 5 || qkv.shape.dims[2] != 3) {
    return Mismatch(Describe("qkv", qkv) + " must be [batch, seq, 3, heads, head_dim]");
  }
  const Dims& q = qkv.shape.dims;
  if (cache.shape.rank() != 5) {
    return Mismatch(Describe("cache", cache) + " must be [batch, 2, heads, positions, head_dim]");
  }
  RETURN_IF_ERROR(ExpectDims("cache", cache, {q[0], 2, q[3], cache.shape.dims[3], q[4]},
                             "as follows from " + Describe("qkv", qkv)));
  RETURN_IF_ERROR(ExpectIds("position", position));
  RETURN_IF_ERROR(ExpectDims("position", position, {1}, "one number"));
  return std::vector<OutputSpec>{{cache.shape, cache.dtype},
                                 {Join(Part(qkv.shape, 0, 2), Part(qkv.shape, 3, 5)), qkv.dtype}};
}

// Samples and heads are independent.
Rows CachedRows(const OpView& v) {
  return {AllB(v), {{S(0), S(0), B()}, {S(0), S(0)}}, {{S(2), S(3), B()}, {S(2), S(2)}}};
}

// Two products over the whole cache: a plan cannot know how much of it is in use.
double CachedFlops(const OpView& v) {
  const Dims &cache = v.in_dims(0), &qkv = v.in_dims(1);
  return 2 * 2 * static_cast<double>(qkv[0] * qkv[1] * qkv[3] * qkv[4]) *
         static_cast<double>(cache[3]);
}

}  // namespace

std::vector<OpDef> CachedAttentionOps() {
  return {{.kind = "cached_attention",
           .usage = "cache[b, 2, heads, T, d], qkv[b, t, 3, heads, d], position[1] -> cache, "
                    "out[b, t, heads, d]",
           .min_inputs = 3,
           .max_inputs = 3,
           .outputs = 2,
           .updates = 1,
           .infer = InferCached,
           .signatures = CachedRows,
           .flops = CachedFlops,
           .products = Products::kOwn,
           .overwrites = true}};
}

}  // namespace oneflow
