// FinishProduct: the operations on a product's result for which the library has no epilogue.
// Internal to cuda/kernel.
//
//   FinishSpec spec{.rows = m, .columns = n, .then = ProductSpec::Then::kGelu};
//   const FinishOperands operands{.product = y, .bias = bias, .out = y, .gelu = g};
//   RETURN_IF_ERROR(FinishProduct(spec, operands, stream));
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "actor_runtime/kernel/product_spec.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow::cuda {

struct FinishSpec {
  int64_t rows = 0, columns = 0;
  ProductSpec::Then then = ProductSpec::Then::kNothing;
  DType product = DType::kF32, out = DType::kF32, bias = DType::kF32;  // f32 or bf16
};

// All are [rows, columns], except the bias, [columns].
struct FinishOperands {
  const void* product = nullptr;  // as `out`, or f32; null: all zeros
  const void* bias = nullptr;     // null: none
  const void* other = nullptr;    // input 2 of kGeluGrad and kAdd, as `out`
  void* out = nullptr;            // may be where the product is
  void* gelu = nullptr;           // output 1 of kGelu, as `out`
};

// out = product + bias, then the operation `then`, in f32, each result rounded once. Gelu and its
// gradient use the rounded sum, as the separate kernels do. Launches and returns.
absl::Status FinishProduct(const FinishSpec& spec, const FinishOperands& operands,
                           cudaStream_t stream);

}  // namespace oneflow::cuda
