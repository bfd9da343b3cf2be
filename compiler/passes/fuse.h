// Fuse: a product and its activation become one op. Its kernel applies the activation to each part
// of the result while the part is in cache. This saves one pass over memory each way, and in the
// backward one tensor:
//
//   y = linear(x, w, b);            z = gelu(y)             ->  y, z = linear(x, w, b; then gelu)
//   dz = linear_grad_input(dy, w);  dx = gelu_grad(dz, x)
//                                             ->  dx = linear_grad_input(dy, w, x; then gelu_grad)
//   y = linear(x, w, b);            z = gated(g, y)
//                                             ->  y, z = linear(x, w, g, b; then gated)
//   dz = linear_grad_input(dy, w);  dg, dx = gated_grad(dz, g, x)
//                                   ->  dg, dx = linear_grad_input(dy, w, g, x; then gated_grad)
//
//   q, k, v = split_qkv(qkv);         out, lse = attention(q, k, v)
//                                                            ->  out, lse = packed_attention(qkv)
//   dq, dk, dv = attention_grad(dout, q, k, v, out, lse);  dqkv = join_qkv(dq, dk, dv)
//                                              ->  dqkv = packed_attention_grad(dout, qkv, out,
//                                              lse)
//
// The last two save the copies, if nothing else reads q, k or v.
//
// Two ops are fused only if nothing is between them: no boxing, no cast, no other stage, chunk or
// phase. In the backward nothing else may read dz, and dx may be no variable's gradient, because
// only a plain product adds up over the micro-batches. An activation that is recomputed alone stays
// separate, and so does a gated op whose gate is made after the product.
//
// If `row_stats`, for devices that read memory far more slowly than they compute: row_max,
// row_sum_exp and pick of the same logits become one op, row_stats, which reads them once. A
// vocabulary that is split has boxing between the three; they stay separate then.
//
// The kernels give the bits of those that they replace (kernel_test), so fusing changes none.
// `--fuse=false` (Train.no_fusion) leaves it out: to look at kernels one by one, or to predict a
// system that does not fuse.
#pragma once

#include <vector>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct FuseOptions {
  bool row_stats = false;
};

// Requires inserted boxing; VerifyGraph proves the result. Returns the new id of each tensor; -1
// for tensors that no op makes any more.
std::vector<TensorId> Fuse(Graph* graph, const FuseOptions& options = {});

}  // namespace oneflow
