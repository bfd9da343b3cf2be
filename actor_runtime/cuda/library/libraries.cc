#include "actor_runtime/cuda/library/libraries.h"

#include "oneflow_core/base/status.h"

namespace oneflow::cuda {

DeviceLibraries::State::~State() {
  if (handle != nullptr) cublas_lt.Destroy(handle);
}

absl::StatusOr<DeviceLibraries> DeviceLibraries::Open(const LibraryPaths& paths) {
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->cublas_lt, OpenCublasLt(paths));
  const CublasLt& lt = state->cublas_lt;
  RETURN_IF_ERROR(lt.ToStatus(lt.Create(&state->handle), "cublasLtCreate"));
  return DeviceLibraries(std::move(state));
}

}  // namespace oneflow::cuda
