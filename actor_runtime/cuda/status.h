// Errors of the CUDA runtime as absl::Status.
//
//   RETURN_IF_ERROR(cuda::ToStatus(cudaMalloc(&p, bytes), "arena of 3 GiB"));
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace oneflow::cuda {

// OK for cudaSuccess, else "what: name (explanation)" with the code
//   RESOURCE_EXHAUSTED  memory of the device or pinned memory is used up
//   UNAVAILABLE         there is no device, or no driver for this toolkit
//   INTERNAL            anything else
inline absl::Status ToStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      std::string(what) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  switch (error) {
    case cudaErrorMemoryAllocation: return absl::ResourceExhaustedError(message);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver: return absl::UnavailableError(message);
    default: return absl::InternalError(message);
  }
}

}  // namespace oneflow::cuda
