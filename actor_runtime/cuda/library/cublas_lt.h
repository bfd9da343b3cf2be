// CublasLt: cuBLASLt, opened at run time: exactly the functions that products call.
//
//   ASSIGN_OR_RETURN(const CublasLt lt, OpenCublasLt(FindLibraryPaths(FLAGS_cuda_libs)));
//   RETURN_IF_ERROR(lt.ToStatus(lt.Create(&handle), "cublasLtCreate"));
//
// The functions are those of <cublasLt.h>. In the emulated flavour they are those of
// actor_runtime/cuda/emulated/cublas_lt.h, for any paths.
#pragma once

#include <cublasLt.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/open_library.h"

namespace oneflow::cuda {

struct CublasLt {
  std::string path;     // of the opened file
  std::string version;  // "13.1.0"

  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtGetVersion) GetVersion = nullptr;
  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;

  // OK for success; else "cuBLASLt: WHAT: reason", UNIMPLEMENTED for unsupported operations and
  // INTERNAL for other errors.
  absl::Status ToStatus(cublasStatus_t status, const char* what) const;
};

// NOT_FOUND or FAILED_PRECONDITION, as OpenLibrary and Bind.
absl::StatusOr<CublasLt> OpenCublasLt(const LibraryPaths& paths);

}  // namespace oneflow::cuda
