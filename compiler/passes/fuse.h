// Fuse: a product and its activation become one op, whose kernel does the second to what the first
// has just finished, while it is in cache. So one less pass over memory each way, and in the
// backward one tensor less:
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
// The last two save the copies, where nothing else reads q, k or v.
//
// Only where nothing stands between the two: no boxing, no cast, no other stage, chunk or phase;
// and, in the backward, where nobody else reads dz, and dx is no variable's gradient: what is not a
// plain product does not add up over the micro-batches. An activation that is recomputed alone is
// left alone, and so is a gated op whose gate is made after the product.
//
// For devices that read memory far more often than they compute, row_max, row_sum_exp and pick of
// the same logits become one op, row_stats, which reads them once. A vocabulary that is split has
// boxing between the three; they stay apart then.
//
// The kernels give the bits of those that they replace (kernel_test), so fusing changes none. It is
// left out with `--fuse=false` (Train.no_fusion): to look at kernels one by one, or to say what
// takes a system that does not fuse.
#pragma once

#include <vector>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct FuseOptions {
  bool row_stats = false;
};

// Requires boxing to be there; VerifyGraph proves the result. Returns the new id of each tensor; -1
// for those that nobody makes any more.
std::vector<TensorId> Fuse(Graph* graph, const FuseOptions& options = {});

}  // namespace oneflow
