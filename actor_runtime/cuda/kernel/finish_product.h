// FinishProduct: the operations on a product's result for which the library has no epilogue.
// Internal to cuda/kernel.
//
//   FinishSpec spec{.rows = m, .columns = n, .then = ProductSpec::Then::kGelu};
//   const FinishOperands operands{.product = y, .bias = bias, .out = y, .second = g};
//   RETURN_IF_ERROR(FinishProduct(spec, operands, stream));
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/op/product_spec.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow::cuda {

struct FinishSpec {
  int64_t rows = 0, columns = 0;
  ProductSpec::Then then = ProductSpec::Then::kNothing;
  bool silu = false;  // the activation of the gated ones
  DType product = DType::kF32, out = DType::kF32, bias = DType::kF32;  // f32 or bf16
};

// All are [rows, columns], except the bias, [columns].
struct FinishOperands {
  const void* product = nullptr;  // as `out`, or f32; null: all zeros
  const void* bias = nullptr;     // null: none
  const void* other = nullptr;    // input 2 of kGeluGrad, kAdd, kGated and kGatedGrad, as `out`
  const void* third = nullptr;    // input 3 of kGatedGrad, as `out`
  void* out = nullptr;            // may be where the product is
  void* second = nullptr;         // output 1 of kGelu, kGated and kGatedGrad, as `out`
};

// out = product + bias, then the operation `then`, in f32, each result rounded once. Activations
// and their gradients use the rounded sum, as the separate kernels do. Launches and returns.
absl::Status FinishProduct(const FinishSpec& spec, const FinishOperands& operands,
                           cudaStream_t stream);

}  // namespace oneflow::cuda
