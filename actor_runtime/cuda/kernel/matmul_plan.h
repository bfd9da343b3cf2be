// MatmulPlan: one product of row-major matrices by cuBLASLt, planned at load. Internal to
// cuda/kernel.
//
//   ASSIGN_OR_RETURN(auto plan, MatmulPlan::Make({.m = 2, .n = 3, .k = 4}, libraries));
//   RETURN_IF_ERROR(plan->Run({.a = a, .b = b, .d = d}, workspace, stream));   // d = a b
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"

namespace oneflow::cuda {

// d[m, n] = epilogue(a[m, k] b[k, n] + beta c[m, n]), `batch` of them contiguous in memory. a is
// stored [k, m] when transpose_a, b [n, k] when transpose_b. c and d have one type, as have a bias
// and the input of gelu.
struct MatmulShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  cudaDataType in = CUDA_R_32F, out = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  size_t workspace_bytes = 0;  // at most
};

struct MatmulOperands {
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  // read if beta is not 0
  void* d = nullptr;
  const void* bias = nullptr;  // n elements, for the epilogues that add it
  void* aux = nullptr;         // [m, n], for epilogues that write or read gelu's input
  float beta = 0;
};

class MatmulPlan {
 public:
  // UNIMPLEMENTED if the library has no algorithm for it on the current device.
  static absl::StatusOr<std::shared_ptr<const MatmulPlan>> Make(const MatmulShape& shape,
                                                                const Libraries& libraries);
  MatmulPlan(const MatmulPlan&) = delete;
  MatmulPlan& operator=(const MatmulPlan&) = delete;
  ~MatmulPlan();

  // Launches on `stream`. Operands begin at multiples of 64 bytes. One call at a time, because the
  // plan's descriptor holds the addresses of an epilogue.
  absl::Status Run(const MatmulOperands& operands, std::span<std::byte> workspace,
                   cudaStream_t stream) const;

 private:
  MatmulPlan(const MatmulShape& shape, const Libraries& libraries)
      : shape_(shape), lt_(*libraries.cublas_lt), handle_(libraries.handle) {}
  absl::Status Describe();
  absl::Status ChooseAlgorithm();
  absl::Status SetLayout(cublasLtMatrixLayout_t* layout, cudaDataType type, int64_t rows,
                         int64_t columns);
  absl::Status SetEpilogue(const void* bias, void* aux) const;

  MatmulShape shape_;
  const CublasLt& lt_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  // For the library's A and B, and for both C and D.
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulAlgo_t algo_ = {};
  size_t workspace_bytes_ = 0;
};

}  // namespace oneflow::cuda
