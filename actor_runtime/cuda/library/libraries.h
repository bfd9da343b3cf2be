// Libraries: the inputs of kernel factories besides the setup: the foreign libraries, opened, and a
// handle for the device of the kernels.
//
//   ASSIGN_OR_RETURN(const DeviceLibraries opened, DeviceLibraries::Open(paths));
//   ASSIGN_OR_RETURN(Kernel kernel, MakeLinear(setup, opened.libraries()));
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/cublas_lt.h"

namespace oneflow::cuda {

// Both outlive every kernel that was made with them.
struct Libraries {
  const CublasLt* cublas_lt = nullptr;
  cublasLtHandle_t handle = nullptr;
};

// The owner of one device's libraries.
class DeviceLibraries {
 public:
  // For the calling thread's current device.
  static absl::StatusOr<DeviceLibraries> Open(const LibraryPaths& paths);

  Libraries libraries() const { return {&state_->cublas_lt, state_->handle}; }

 private:
  struct State {
    CublasLt cublas_lt;
    cublasLtHandle_t handle = nullptr;
    ~State();
  };
  explicit DeviceLibraries(std::unique_ptr<State> state) : state_(std::move(state)) {}

  std::unique_ptr<State> state_;
};

}  // namespace oneflow::cuda
