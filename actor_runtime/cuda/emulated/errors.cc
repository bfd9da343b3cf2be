// Names and descriptions of errors.
#include <cuda_runtime.h>

namespace {

struct Described {
  cudaError_t error;
  const char *name, *text;
};
constexpr Described kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid direction"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "driver too old"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "illegal memory access"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "not supported"},
};
const Described& Describe(cudaError_t error) {
  static constexpr Described kUnknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  for (const Described& described : kErrors) {
    if (described.error == error) return described;
  }
  return kUnknown;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return Describe(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return Describe(error).text; }
