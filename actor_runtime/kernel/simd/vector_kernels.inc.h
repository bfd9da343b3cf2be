// The body of vector_kernels_<instruction set>.cc: the same code, compiled for vectors of
// ONEFLOW_VECTOR_BYTES into the namespace ONEFLOW_VECTOR_NAMESPACE. It must not use inline
// functions of other headers: the linker would keep one copy, perhaps one that this processor
// cannot run.
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "actor_runtime/kernel/simd/vector_kernels.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors wider than the ABI's stay inside this file

namespace oneflow::ONEFLOW_VECTOR_NAMESPACE {
namespace {

// In this order: each uses those before it.
#include "actor_runtime/kernel/simd/vector_math.inc.h"

#include "actor_runtime/kernel/simd/elementwise.inc.h"

#include "actor_runtime/kernel/simd/random.inc.h"

#include "actor_runtime/kernel/simd/rows.inc.h"

#include "actor_runtime/kernel/simd/rotary.inc.h"

template <typename T, typename X, typename Y>
constexpr RmsNormKernels<T, X, Y> RmsNormTable() {
  return {.forward = RmsNorm<T, X, Y>,
          .grad_input = RmsNormGradInput<T, X, Y>,
          .grad_weight = RmsNormGradWeight<T, X, Y>};
}

template <typename T, typename S, template <typename> class A>
constexpr GatedKernels<S> GatedTable() {
  return {.forward = Gated<T, S, A>, .grad = GatedGrad<T, S, A>};
}

template <typename T, typename S = T>
constexpr VectorKernels<T, S> Table() {
  return {
      .widen = Convert<T, S, T>,
      .round = Convert<T, T, S>,
      .add = Add<T, T, S>,
      .add_narrow = Add<T, S, S>,
      .add_bias = AddBias<T, S>,
      .accumulate = Accumulate<T, S>,
      .maximum = Maximum<T, S>,
      .scale = Scale<T>,
      .multiply = Multiply<T, S, S>,
      .multiply_wide = Multiply<T, S, T>,
      .soft_cap = SoftCap<T, S>,
      .soft_cap_grad = SoftCapGrad<T, S>,
      .gelu = Gelu<T, S>,
      .gelu_grad = GeluGrad<T, S>,
      .gated_silu = GatedTable<T, S, SiluGate>(),
      .gated_gelu = GatedTable<T, S, GeluGate>(),
      .gated_clamped_silu = GatedTable<T, S, ClampedSiluGate>(),
      .exp = ExpAll<T>,
      .dropout = Dropout<T, S>,
      .dropout_mask = DropoutMask,
      .apply_mask = ApplyMask<T, S>,
      .sum_squares = SumSquares<T>,
      .adamw = AdamW<T>,
      .layer_norm = LayerNorm<T, T, S>,
      .layer_norm_grad_input = LayerNormGradInput<T, T, S>,
      .layer_norm_grad_weight = LayerNormGradWeight<T, T, S>,
      .layer_norm_narrow = LayerNorm<T, S, S>,
      .layer_norm_grad_input_narrow = LayerNormGradInput<T, S, S>,
      .layer_norm_grad_weight_narrow = LayerNormGradWeight<T, S, S>,
      .rms_norm = RmsNormTable<T, T, S>(),
      .rms_norm_narrow = RmsNormTable<T, S, S>(),
      .rms_norm_narrow_x = RmsNormTable<T, S, T>(),
      .row_square_sum = RowSquareSum<T, S>,
      .row_scale = RowScale<T, S>,
      .row_dot = RowDot<T, S>,
      .rotary_angles = RotaryAngles<T>,
      .rotate = Rotate<T, S>,
      .column_sums = ColumnSums<T, S>,
      .row_max = RowMax<T, S>,
      .row_sum_exp = RowSumExp<T, S>,
      .row_exp = RowExp<T, S>,
      .softmax_grad_row = SoftmaxGradRow<T, S>,
      .softmax_row = SoftmaxRow<T>,
  };
}

}  // namespace

extern const VectorKernels<float> kFloat;
extern const VectorKernels<double> kDouble;
extern const VectorKernels<float, Bf16> kBf16;
constinit const VectorKernels<float> kFloat = Table<float>();
constinit const VectorKernels<double> kDouble = Table<double>();
constinit const VectorKernels<float, Bf16> kBf16 = Table<float, Bf16>();

}  // namespace oneflow::ONEFLOW_VECTOR_NAMESPACE
