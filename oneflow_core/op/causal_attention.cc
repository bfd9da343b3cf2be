// causal_attention: attention on a packed qkv[b, t, 3, heads, d], as graphs of GPT-2 write it. The
// pass `decompose` makes it
//
//   q, k, v = split_qkv(qkv)    out, lse = attention(q, k, v, ...)
//
// and hands further inputs, positions and documents, to the attention, whose row checks them.
#include "oneflow_core/op/attention_dims.h"
#include "oneflow_core/op/op_tables.h"
#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

Specs InferComposite(const OpView& v) {
  const Tensor& qkv = v.in(0);
  RETURN_IF_ERROR(ExpectFloat(v, {"qkv"}, {0}));
  ASSIGN_OR_RETURN(const QkvShapes parts, SplitQkv(qkv, /*parts_first=*/true));
  return std::vector<OutputSpec>{{parts.q, qkv.dtype},
                                 {LseShape(parts.q), AccumulationType(qkv.dtype)}};
}

InputGrads CompositeGradient(GradientContext&) {
  return absl::InternalError("causal_attention is differentiated after `decompose`");
}

// Those of its attention: the pipeline's stages are balanced by the graph as it is written.
double CompositeFlops(const OpView& v) {
  const auto t = static_cast<double>(v.in_dims(0)[1]);
  return 2 * 2 * static_cast<double>(v.in(0).shape.elements()) / 3 * (t + 1) / 2;
}

}  // namespace

std::vector<OpDef> CausalAttentionOps() {
  return {{.kind = "causal_attention",
           .usage =
               "qkv[b, t, 3, heads, d], (q_positions, k_positions, (q_documents, k_documents)) "
               "-> out[b, t, heads, d], lse[b, heads, t]",
           .inputs = {1, 5},
           .outputs = 2,
           .infer = InferComposite,
           .signatures = OnlyB,
           .gradient = CompositeGradient,
           .flops = CompositeFlops,
           .own_products = true,
           .overwrites = true,
           .on_cpu = false,
           .on_cuda = false,
           .selective = true,
           .samples = [](const SampleSizes& s) -> Samples {
             return AlsoNarrow({{{{{s.b, s.t, 3, s.heads, s.d}, -2, 2}}}});
           }}};
}

}  // namespace oneflow
