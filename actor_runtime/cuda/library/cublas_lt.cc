#include "actor_runtime/cuda/library/cublas_lt.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

#ifdef ONEFLOW_EMULATED_GPU
#define ONEFLOW_BIND(function) lt.function = &cublasLt##function

absl::Status BindAll(const LibraryPaths&, CublasLt& lt) {
  lt.path = "the twin of cuBLASLt";
#else
constexpr LibraryName kName{"cuBLASLt", "libcublasLt.so.13",
                            "install CUDA 13 or `pip install nvidia-cublas`"};

// By name only: a mention of the function itself would link the library.
#define ONEFLOW_BIND(function) RETURN_IF_ERROR(Bind(library, "cublasLt" #function, &lt.function))

absl::Status BindAll(const LibraryPaths& paths, CublasLt& lt) {
  ASSIGN_OR_RETURN(const OpenedLibrary library, OpenLibrary(kName, paths));
  lt.path = library.path;
#endif
  ONEFLOW_BIND(Create);
  ONEFLOW_BIND(Destroy);
  ONEFLOW_BIND(GetVersion);
  ONEFLOW_BIND(GetStatusString);
  ONEFLOW_BIND(MatmulDescCreate);
  ONEFLOW_BIND(MatmulDescDestroy);
  ONEFLOW_BIND(MatmulDescSetAttribute);
  ONEFLOW_BIND(MatrixLayoutCreate);
  ONEFLOW_BIND(MatrixLayoutDestroy);
  ONEFLOW_BIND(MatrixLayoutSetAttribute);
  ONEFLOW_BIND(MatmulPreferenceCreate);
  ONEFLOW_BIND(MatmulPreferenceDestroy);
  ONEFLOW_BIND(MatmulPreferenceSetAttribute);
  ONEFLOW_BIND(MatmulAlgoGetHeuristic);
  ONEFLOW_BIND(Matmul);
  return absl::OkStatus();
}
#undef ONEFLOW_BIND

}  // namespace

absl::Status CublasLt::ToStatus(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat("cuBLASLt: ", what, ": ", GetStatusString(status));
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? absl::UnimplementedError(message)
                                               : absl::InternalError(message);
}

absl::StatusOr<CublasLt> OpenCublasLt(const LibraryPaths& paths) {
  CublasLt lt;
  RETURN_IF_ERROR(BindAll(paths, lt));
  const size_t number = lt.GetVersion();
  lt.version = absl::StrCat(number / 10000, ".", number / 100 % 100, ".", number % 100);
  return lt;
}

}  // namespace oneflow::cuda
