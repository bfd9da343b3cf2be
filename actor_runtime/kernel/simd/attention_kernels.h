// AttentionKernels: the inner loops of attention, compiled once for each instruction set; the
// processor's features choose one. Serial: the heads of one group of one sequence a call, no
// allocation.
//
// Keys and values are packed once for all heads of the group. Only a block of kAttentionBlock rows
// (cpu_scratch.h) of a score matrix exists at a time, and panels of keys that no query of the block
// sees are skipped, wherever they are: what is there, be it no number, changes nothing.
//
//   const AttentionKernels<float>& kernels = *AttentionKernelsFor<float>(BestIsa());
//   kernels.forward({q, k, v, q_row, kv_row, heads, queries, keys, d, scale}, /*sinks=*/nullptr,
//                   out, out_row, lse, /*accumulate=*/false, scratch);
//
// Guarantee (law 6): the bits of a query's row depend only on the keys that it sees, and on where
// they are among the keys. The double instances are the references of gradient checks.
#pragma once

#include <cstdint>

#include "actor_runtime/kernel/simd/isa.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {

// What decides which keys a query sees: those of its document, at its position or before it, and
// less than `window` before it (0: at any distance). Positions are given of both or of none: they
// are the indices of rows then. So are documents, and only with positions: there is one then.
struct AttentionVisibility {
  const int32_t *q_positions = nullptr, *k_positions = nullptr;
  const int32_t *q_documents = nullptr, *k_documents = nullptr;
  int64_t window = 0;
};

// The heads of a group: element (position, head, i) of the queries is at q[position * q_row +
// head * d + i], element (position, i) of the keys at k[position * kv_row + i], i < d. Scores are
// products times `scale`; unless `cap` is 0, cap * tanh(score / cap) of them.
template <typename S>
struct AttentionGroup {
  const S *q, *k, *v;
  int64_t q_row, kv_row;
  int64_t heads, queries, keys, d;
  double scale = 1, cap = 0;
  AttentionVisibility visibility = {};
};

// T is the type of computation. S is the type in which q, k, v, out and their gradients are stored:
// T itself, or Bf16 if T is float. `scratch`: AttentionWorkspacePerThread(keys, d) bytes, 64-byte
// aligned. A query that sees no key has a row of zeros, and -infinity or its sink in lse.
template <typename T, typename S = T>
struct AttentionKernels {
  // out[position * out_row + head * d + i] (+)= attention; lse[head * queries + position] = log of
  // the sum of exp(scores), among them sinks[head] unless `sinks` is null.
  void (*forward)(const AttentionGroup<S>& group, const T* sinks, S* out, int64_t out_row, T* lse,
                  bool accumulate, T* scratch);
  // dq, dk and dv have the layout of q, k and v; dk and dv are sums over the heads, in order.
  void (*backward)(const AttentionGroup<S>& group, const S* dout, const S* out, int64_t out_row,
                   const T* lse, S* dq, S* dk, S* dv, T* scratch);
};

// The table of one instruction set; nullptr if this processor does not have it. T is float or
// double, or T is float and S Bf16.
template <typename T, typename S = T>
const AttentionKernels<T, S>* AttentionKernelsFor(Isa isa);

}  // namespace oneflow
