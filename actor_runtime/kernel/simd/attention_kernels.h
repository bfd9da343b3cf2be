// AttentionKernels: the inner loops of attention, compiled once for each instruction set; the
// processor's features choose one. Serial: one head of one sequence a call, no allocation.
//
// Only a block of kAttentionBlock rows (workspace.h) of the score matrix exists at a time, and only
// its unmasked scores are computed.
//
//   const AttentionKernels<float>& kernels = *AttentionKernelsFor<float>(BestIsa());
//   kernels.forward({q, k, v, row, t, d}, out, out_row, lse, /*accumulate=*/false, scratch);
//
// Guarantee (law 6): the bits of a position's row depend only on the positions that it sees. The
// double instances are the references of gradient checks.
#pragma once

#include <cstdint>

#include "actor_runtime/kernel/simd/isa.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {

// q, k and v of a head: element (position, i) is at [position * row + i], i < d.
template <typename S>
struct AttentionHead {
  const S *q, *k, *v;
  int64_t row;
  int64_t t, d;
};

// T is the type of computation. S is the type in which q, k, v, out and their gradients are stored:
// T itself, or Bf16 if T is float. `scratch`: AttentionWorkspacePerThread(t, d) bytes, 64-byte
// aligned.
template <typename T, typename S = T>
struct AttentionKernels {
  // out[position * out_row + i] (+)= attention; lse[position] = log of the sum of exp(scores).
  void (*forward)(const AttentionHead<S>& head, S* out, int64_t out_row, T* lse, bool accumulate,
                  T* scratch);
  // dq, dk and dv have the layout of q, k and v.
  void (*backward)(const AttentionHead<S>& head, const S* dout, const S* out, int64_t out_row,
                   const T* lse, S* dq, S* dk, S* dv, T* scratch);
};

// The table of one instruction set; nullptr if this processor does not have it. T is float or
// double, or T is float and S Bf16.
template <typename T, typename S = T>
const AttentionKernels<T, S>* AttentionKernelsFor(Isa isa);

}  // namespace oneflow
