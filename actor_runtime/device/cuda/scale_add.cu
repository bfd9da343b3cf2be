#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "actor_runtime/device/cuda/scale_add.h"

namespace oneflow {
namespace {

constexpr int kThreads = 256;

__global__ void ScaleAdd(float a, const float* x, float* y, size_t n) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}

struct CudaFree {
  void operator()(float* p) const { cudaFree(p); }
};
using DeviceFloats = std::unique_ptr<float[], CudaFree>;

absl::Status ToStatus(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      std::string(doing) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    return absl::UnavailableError(message);
  }
  return absl::InternalError(message);
}

// Copies host floats to the device.
absl::Status Upload(std::span<const float> host, DeviceFloats& device) {
  float* p = nullptr;
  if (auto s = ToStatus(cudaMalloc(&p, host.size_bytes()), "cudaMalloc"); !s.ok()) return s;
  device.reset(p);
  return ToStatus(cudaMemcpy(p, host.data(), host.size_bytes(), cudaMemcpyHostToDevice), "upload");
}

}  // namespace

absl::Status CudaScaleAdd(float a, std::span<const float> x, std::span<float> y) {
  if (x.size() != y.size()) return absl::InvalidArgumentError("x and y differ in size");
  if (x.empty()) return absl::OkStatus();
  DeviceFloats device_x, device_y;
  if (auto s = Upload(x, device_x); !s.ok()) return s;
  if (auto s = Upload(y, device_y); !s.ok()) return s;
  const unsigned blocks = static_cast<unsigned>((y.size() + kThreads - 1) / kThreads);
  ScaleAdd<<<blocks, kThreads>>>(a, device_x.get(), device_y.get(), y.size());
  if (auto s = ToStatus(cudaGetLastError(), "ScaleAdd"); !s.ok()) return s;
  return ToStatus(cudaMemcpy(y.data(), device_y.get(), y.size_bytes(), cudaMemcpyDeviceToHost),
                  "download");
}

}  // namespace oneflow
