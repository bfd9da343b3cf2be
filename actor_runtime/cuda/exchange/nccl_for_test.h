// For tests of exchanges over the emulated NCCL: a backend, memory on its devices.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/device/cuda_device.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "actor_runtime/cuda/kernel/make_kernel.h"

namespace oneflow::cuda {

using Bytes = std::vector<std::byte>;

inline void Good(cudaError_t error) { REQUIRE(error == cudaSuccess); }
inline void Good(const absl::Status& status) { REQUIRE(status == absl::OkStatus()); }

inline Nccl OpenTwin() {
  const absl::StatusOr<Nccl> nccl = OpenNccl({});
  Good(nccl.status());
  return *nccl;
}

// Ends nothing: a hang of NCCL is a failure of the test.
inline NcclPatience Patience() {
  return {.on_hang = [](const std::string& sentence) { FAIL_CHECK(sentence); }};
}

inline DeviceBackend BackendOverNccl(const Nccl& nccl, const NcclPatience& patience = Patience()) {
  DeviceBackend backend;
  backend.kind = proto::CUDA;
  backend.make_device = MakeCudaDevice;
  backend.make_kernel = [](Device&, const KernelSetup& s) { return MakeCudaKernel(s, {}); };
  ExchangeOverNccl(nccl, IdsInMemory(), &backend, patience);
  return backend;
}

// Memory of a device, given back at the end.
class OnDevice {
 public:
  OnDevice(Device* device, size_t bytes) : device_(device), bytes_(bytes) {
    Good(device->Attach());
    if (bytes > 0) Good(cudaMalloc(&memory_, bytes));
  }
  OnDevice(OnDevice&& other) noexcept
      : device_(other.device_),
        bytes_(other.bytes_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  ~OnDevice() { cudaFree(memory_); }

  std::byte* at() const { return static_cast<std::byte*>(memory_); }
  size_t bytes() const { return bytes_; }
  void Write(const Bytes& bytes) const {
    Good(device_->Attach());
    if (bytes_ > 0) Good(cudaMemcpy(memory_, bytes.data(), bytes_, cudaMemcpyHostToDevice));
    Good(cudaStreamSynchronize(nullptr));
  }
  Bytes Read() const {
    Bytes bytes(bytes_);
    Good(device_->Attach());
    if (bytes_ > 0) Good(cudaMemcpy(bytes.data(), memory_, bytes_, cudaMemcpyDeviceToHost));
    return bytes;
  }

 private:
  Device* device_;
  size_t bytes_;
  void* memory_ = nullptr;
};

// All that is given to the streams is over, and nothing was wrong on the way.
inline void CheckClean() {
  CHECK(emulated::Diagnostics().empty());
  CHECK(emulated::Stuck().empty());
}

}  // namespace oneflow::cuda
