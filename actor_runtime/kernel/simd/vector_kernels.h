// VectorKernels: the inner loops of the CPU kernels, compiled once for each instruction set
// (baseline, AVX2, AVX-512); the processor's features choose one. Serial: no threads, no
// allocation, no shapes beyond counts.
//
// Guarantee (law 6): every element-wise result is computed by the same instructions at every
// position, and every sum has an order that depends on its length only; so results do not depend on
// alignment or on the caller's split of the work. Between instruction sets the last bits may
// differ.
//
//   const VectorKernels<float>& v = *VectorFor<float>(BestIsa());
//   v.gelu(x, y, n, /*accumulate=*/false);
//
// The double instances are the references of gradient checks and tests. Instances that store bf16
// compute in f32: an element is widened as it is read and rounded as it is written, with exactly
// the bits of ToBf16, on every instruction set.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "actor_runtime/kernel/simd/isa.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {

// The precomputed factors of one AdamW update.
struct AdamNumbers {
  double learning_rate, beta1, beta2, epsilon, decay, clip_factor;
  double correction1, correction2;  // 1 - beta^(step + 1)
};

// The numbers of dropout: an element is dropped if its 32 random bits are below `drop_below`, else
// kept and multiplied by `scale`. Its bits are word `index` of a stream: RandomStream::Word in
// actor_runtime/random/random.h.
struct DropoutNumbers {
  uint64_t key, stream;
  uint32_t drop_below;
  double scale;  // 1 / (1 - rate)
};

// rms_norm over rows of `width`, with x and dx stored as X, and y and dy as Y.
template <typename T, typename X, typename Y>
struct RmsNormKernels {
  // `offset` is added to gamma.
  void (*forward)(const X* x, const T* gamma, T offset, T epsilon, Y* y, T* rstd, int64_t rows,
                  int64_t width);
  void (*grad_input)(const Y* dy, const X* x, const T* gamma, T offset, const T* rstd, X* dx,
                     int64_t rows, int64_t width, bool accumulate);
  // Columns [begin, end) of the sum over rows: Σ dy x rstd.
  void (*grad_weight)(const Y* dy, const X* x, const T* rstd, T* dgamma, int64_t rows,
                      int64_t width, int64_t begin, int64_t end, bool accumulate);
};

// An activation of `gated`: y = act(gate) * up, and its gradients; dgate may be dy.
template <typename S>
struct GatedKernels {
  void (*forward)(const S* gate, const S* up, S* y, int64_t n, bool accumulate);
  void (*grad)(const S* dy, const S* gate, const S* up, S* dgate, S* dup, int64_t n,
               bool accumulate);
};

// T is the type of computation. S is the type in which tensors that may be narrow are stored: T
// itself, or Bf16 if T is float. `accumulate` adds to y instead of overwriting it. Rows are dense.
template <typename T, typename S = T>
struct VectorKernels {
  // Element-wise over n:
  void (*widen)(const S* x, T* y, int64_t n, bool accumulate);  // y = x
  void (*round)(const T* x, S* y, int64_t n, bool accumulate);  // y = x
  void (*add)(const T* a, const S* b, T* y, int64_t n, bool accumulate);
  void (*add_narrow)(const S* a, const S* b, S* y, int64_t n, bool accumulate);
  void (*add_bias)(const S* x, const T* bias, S* y, int64_t n, bool accumulate);
  void (*accumulate)(const S* x, T* y, int64_t n);                                // y += x
  void (*maximum)(const S* x, T* y, int64_t n);                                   // y = max(y, x)
  void (*scale)(T factor, T* y, int64_t n);                                       // y *= factor
  void (*multiply)(T factor, const S* x, S* y, int64_t n, bool accumulate);       // y = factor x
  void (*multiply_wide)(T factor, const S* x, T* y, int64_t n, bool accumulate);  // the same
  // y = cap tanh(x / cap), and its gradient from y; dx may be dy.
  void (*soft_cap)(T cap, const S* x, S* y, int64_t n, bool accumulate);
  void (*soft_cap_grad)(T cap, const S* dy, const S* y, S* dx, int64_t n, bool accumulate);
  void (*gelu)(const S* x, S* y, int64_t n, bool accumulate);
  void (*gelu_grad)(const S* dy, const S* x, S* dx, int64_t n, bool accumulate);
  GatedKernels<S> gated_silu, gated_gelu, gated_clamped_silu;
  void (*exp)(const T* x, T* y, int64_t n);
  // Elements first, first + 1, ... of a random mask; y may be x.
  void (*dropout)(const DropoutNumbers& numbers, uint64_t first, const S* x, S* y, int64_t n,
                  bool accumulate);
  // mask[i] = 1 if element first + i is kept, else 0; and y = x * scale if mask is not 0, else 0.
  // One after the other they equal `dropout`, bit for bit; y may be x.
  void (*dropout_mask)(const DropoutNumbers& numbers, uint64_t first, uint8_t* mask, int64_t n);
  void (*apply_mask)(const uint8_t* mask, T scale, const S* x, S* y, int64_t n, bool accumulate);
  double (*sum_squares)(const T* x, int64_t n);
  void (*adamw)(const AdamNumbers& numbers, const T* g, T* w, T* m, T* v, int64_t n);
  // Rows of `width`:
  void (*layer_norm)(const T* x, const T* gamma, const T* beta, T epsilon, S* y, T* mean, T* rstd,
                     int64_t rows, int64_t width);  // beta may be null
  void (*layer_norm_grad_input)(const S* dy, const T* x, const T* gamma, const T* mean,
                                const T* rstd, T* dx, int64_t rows, int64_t width, bool accumulate);
  // Columns [begin, end) of the sums over rows: Σ dy (x - mean) rstd and Σ dy.
  void (*layer_norm_grad_weight)(const S* dy, const T* x, const T* mean, const T* rstd, T* dgamma,
                                 T* dbeta, int64_t rows, int64_t width, int64_t begin, int64_t end,
                                 bool accumulate);
  // The same for rows that are themselves stored as S.
  void (*layer_norm_narrow)(const S* x, const T* gamma, const T* beta, T epsilon, S* y, T* mean,
                            T* rstd, int64_t rows, int64_t width);
  void (*layer_norm_grad_input_narrow)(const S* dy, const S* x, const T* gamma, const T* mean,
                                       const T* rstd, S* dx, int64_t rows, int64_t width,
                                       bool accumulate);
  void (*layer_norm_grad_weight_narrow)(const S* dy, const S* x, const T* mean, const T* rstd,
                                        T* dgamma, T* dbeta, int64_t rows, int64_t width,
                                        int64_t begin, int64_t end, bool accumulate);
  RmsNormKernels<T, T, S> rms_norm;
  RmsNormKernels<T, S, S> rms_norm_narrow;
  RmsNormKernels<T, S, T> rms_norm_narrow_x;  // with a wide dy
  // One row of a norm whose rows several devices may have: Σ x^2, y = x r gamma, Σ dy x gamma.
  T (*row_square_sum)(const S* x, int64_t n);
  void (*row_scale)(const S* x, T r, const T* gamma, S* y, int64_t n, bool accumulate);
  T (*row_dot)(const S* dy, const S* x, const T* gamma, int64_t n);
  // Rotary position embeddings. Cosines and sines of n angles position * frequency, times `factor`,
  // computed in f32 whatever T is.
  void (*rotary_angles)(float position, float factor, const float* frequencies, T* cosines,
                        T* sines, int64_t n);
  // Turns n pairs (x[j], x[half + j]) of each head of d elements.
  void (*rotate)(const S* x, const T* cosines, const T* sines, S* y, int64_t heads, int64_t d,
                 int64_t half, int64_t n, bool accumulate);
  void (*column_sums)(const S* x, T* y, int64_t rows, int64_t width, int64_t begin, int64_t end,
                      bool accumulate);
  T (*row_max)(const S* x, int64_t n);  // -inf for n = 0
  T (*row_sum_exp)(const S* x, T max, int64_t n);
  // y = exp(x - max) * factor.
  void (*row_exp)(const S* x, T max, T factor, S* y, int64_t n, bool accumulate);
  // The gradient of y = softmax(scale x), one row: dx = scale y (dy - Σ dy y).
  void (*softmax_grad_row)(const S* dy, const S* y, T scale, S* dx, int64_t n, bool accumulate);
  // Attention, one row of n scores in place: s becomes exp((s - max) * scale); returns
  // the sum, and max.
  T (*softmax_row)(T* s, T scale, int64_t n, T* max);
};

// The table of one instruction set; nullptr if this processor does not have it. T is float or
// double, or T is float and S Bf16.
template <typename T, typename S = T>
const VectorKernels<T, S>* VectorFor(Isa isa);

}  // namespace oneflow
