// cached_attention: cache[b, 2, g, T, d], q[b, t, g, r, d] or q[b, t, g, d], k[b, t, g, d],
// v[b, t, g, d], position[1], (sinks[g, r] or [g]) -> cache, out, shaped as q. The keys and values
// of t new positions, the first of them `position`, enter the cache, and each new position sees all
// positions up to itself, or the last `window` of them: the result of attention for them when it
// sees the whole text. New positions at T and beyond are padding: they enter nothing.
#include <algorithm>

#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/op/attention_dims.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

Specs InferCached(const OpView& v) {
  const Tensor &cache = v.in(0), &q = v.in(1), &k = v.in(2), &position = v.in(4);
  RETURN_IF_ERROR(ExpectFloat(v, {"cache", "q", "k", "v"}));
  RETURN_IF_ERROR(ExpectQueriesAndKeys(q, k, v.in(3)));
  RETURN_IF_ERROR(ExpectScores(v.op));
  const Dims& keys = k.shape.dims;
  if (keys[1] != q.shape.dims[1]) {
    return Mismatch(Describe("q", q) + " and " + Describe("k", k) + " differ in positions");
  }
  if (cache.shape.rank() != 5) {
    return Mismatch(Describe("cache", cache) + " must be [batch, 2, groups, positions, head_dim]");
  }
  RETURN_IF_ERROR(ExpectDims("cache", cache, {keys[0], 2, keys[2], cache.shape.dims[3], keys[3]},
                             "as follows from " + Describe("k", k)));
  RETURN_IF_ERROR(ExpectIds("position", position));
  RETURN_IF_ERROR(ExpectDims("position", position, {1}, "one number"));
  if ((v.n_inputs() == 6) != AttrBool(v.op, "sinks")) {
    return Mismatch("has sinks without the attribute of that name, or the reverse");
  }
  if (v.n_inputs() == 6) {
    RETURN_IF_ERROR(ExpectSameType(v, {"cache", "q", "k", "v", "position", "sinks"}, 0, 5));
    RETURN_IF_ERROR(ExpectDims("sinks", v.in(5), Part(q.shape, 2, q.shape.rank() - 1).dims,
                               "a logit of each head of " + Describe("q", q)));
  }
  return std::vector<OutputSpec>{{cache.shape, cache.dtype}, {q.shape, q.dtype}};
}

// Samples and groups are independent, and so are the heads of a group where each device has the
// cache that they share.
Rows CachedRows(const OpView& v) {
  const auto row = [&v](Sbp cache, Sbp q, Sbp sinks) {
    Signature row{{cache, q, cache, cache, B()}, {cache, q}};
    if (v.n_inputs() == 6) row.in.push_back(sinks);
    return row;
  };
  Rows rows = {AllB(v), row(S(0), S(0), B()), row(S(2), S(2), S(0))};
  if (v.in(1).shape.rank() == 5) rows.push_back(row(B(), S(3), S(1)));
  return rows;
}

// Two products, of each query (`q`: their elements) with the whole cache or with its window: a plan
// cannot know how much of the cache is in use.
double ProductFlops(int64_t q, int64_t cached, int64_t window) {
  const int64_t keys = window == 0 ? cached : std::min(window, cached);
  return 2.0 * 2 * static_cast<double>(q) * static_cast<double>(keys);
}

double CachedFlops(const OpView& v) {
  return ProductFlops(v.in(1).shape.elements(), v.in_dims(0)[3], AttrInt(v.op, "window"));
}

CountedFlops CachedAttentionCountFlops(const LocalOp& op) {
  return {.model = ProductFlops(Product(op.out[1]), op.out[0][3], AttrInt(op, "window"))};
}

int64_t CachedAttentionCpuWorkspace(const LocalOp& op, int threads) {
  const Dims &cache = op.in[0], &q = op.in[1];
  const int64_t heads = q.size() == 5 ? q[3] : 1;
  return threads * CachedAttentionWorkspacePerThread(q[1], heads, cache[3], cache[4]);
}

Samples CachedSamples(const SampleSizes& s) {
  const SampleTensor cache{{s.b, 2, s.heads, s.t + 3, s.d}}, k{{s.b, s.t, s.heads, s.d}};
  const SampleTensor position = SampleTensor::Ids({1}, s.t + 3), one{{s.b, 1, s.heads, s.d}};
  const AttrMap window = {{"window", s.t / 2 + 1}};
  AttrMap all = {{"scale", 0.5}, {"soft_cap", 1.5}, {"sinks", true}};
  all.insert(window.begin(), window.end());
  Samples samples = {
      {{cache, {{s.b, s.t, s.heads, s.d}, -2, 2}, k, k, position}},
      {{cache, {{s.b, s.t, s.heads, 2, s.d}, -2, 2}, k, k, position}, window},
      {{cache, {{s.b, 1, s.heads, 2, s.d}, -2, 2}, one, one, position}, window},
      {{cache, {{s.b, s.t, s.heads, s.d}, -2, 2}, k, k, position, {{s.heads}, -1, 3}},
       {{"sinks", true}}},
      {{cache, {{s.b, s.t, s.heads, 2, s.d}, -2, 2}, k, k, position, {{s.heads, 2}, -1, 3}}, all}};
  if (s.large) {
    const SampleTensor q{{1, 5, 2, 64}, -2, 2}, row{{1, 5, 2, 64}};
    samples.push_back({{{{1, 2, 2, 300, 64}}, q, row, row, SampleTensor::Ids({1}, 290)}});
  }
  return samples;
}

}  // namespace

std::vector<OpDef> CachedAttentionOps() {
  return {{.kind = "cached_attention",
           .usage = "cache[b, 2, g, T, d], q[b, t, g, r, d] or q[b, t, g, d], k[b, t, g, d], "
                    "v[b, t, g, d], position[1], (sinks[g, r]) -> cache, out",
           .inputs = {5, 6},
           .outputs = 2,
           .updates = 1,
           .attrs = {{"window", AttrType::kInt},
                     {"scale", AttrType::kDouble},
                     {"soft_cap", AttrType::kDouble},
                     {"sinks", AttrType::kBool}},
           .infer = InferCached,
           .signatures = CachedRows,
           .flops = CachedFlops,
           .own_products = true,
           .counted_flops = CachedAttentionCountFlops,
           .overwrites = true,
           .cpu_workspace = CachedAttentionCpuWorkspace,
           .instead = "write attention: `generate` adds the cache",
           .samples = CachedSamples}};
}

}  // namespace oneflow
