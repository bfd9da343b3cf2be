// Rows of logits in device memory, to their statistics and to their gradient: what the kernels of
// full logits and those of a piece of them share, bit for bit. Internal to cuda/kernel.
//
// Logits are f32 or bf16, as `dtype` says; statistics are f32. Each function launches and returns.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow::cuda {

// Rows that hold columns [first, first + width) of the vocabulary.
struct LogitSizes {
  int64_t rows, width, first;
};

// One number a row.
struct RowStatistics {
  float *max, *sum, *picked;
};

// The maximum of each row, the sum of exponents below it, and the element of the label; 0 where
// that is no column.
absl::Status LaunchRowStats(DType dtype, const LogitSizes& sizes, const void* logits,
                            const int32_t* labels, const RowStatistics& out, cudaStream_t stream);

// Caps logits in their memory, as soft_cap does.
absl::Status LaunchLogitCap(DType dtype, const LogitSizes& sizes, float cap, void* logits,
                            cudaStream_t stream);

struct LogitGradInputs {
  const int32_t* labels;
  const float *max, *sum, *dloss;
  double scale;   // of dloss
  bool ignores;   // rows whose label is negative have no gradient
  float cap = 0;  // the logits are capped, and the gradient is of those before; 0: they are not
};

// dlogits, which may be where the logits are unless it accumulates.
absl::Status LaunchLogitGrads(DType dtype, const LogitSizes& sizes, const void* logits,
                              const LogitGradInputs& in, bool accumulate, void* dlogits,
                              cudaStream_t stream);

}  // namespace oneflow::cuda
