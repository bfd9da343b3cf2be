#include "actor_runtime/cuda/device/cuda_device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/status.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kLeastCapability = 8;  // bf16 products, asynchronous copies to shared memory

class CudaStream final : public DeviceStream {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Make(int queue) {
    std::unique_ptr<CudaStream> made(new CudaStream);
    RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags"));
    for (int i = 0; i < queue + 1; ++i) {
      cudaEvent_t event = nullptr;
      RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                               "cudaEventCreateWithFlags"));
      made->events_.push_back(event);
    }
    made->mark_ = made->events_.back();
    made->events_.pop_back();
    return made;
  }

  ~CudaStream() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    if (mark_ != nullptr) cudaEventDestroy(mark_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  void* handle() const override { return stream_; }

  absl::Status WaitFor(const DeviceStream& other, int64_t launch) override {
    return WaitForEvent(static_cast<const CudaStream&>(other).EventOf(launch));
  }
  absl::Status Record(int64_t launch) override {
    return ToStatus(cudaEventRecord(EventOf(launch), stream_), "cudaEventRecord");
  }
  absl::StatusOr<bool> IsOver(int64_t launch) override {
    const cudaError_t error = cudaEventQuery(EventOf(launch));
    if (error == cudaSuccess) return true;
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // It is no error of a launch.
      return false;
    }
    return ToStatus(error, "cudaEventQuery");
  }

  absl::Status Mark() override {
    return ToStatus(cudaEventRecord(mark_, stream_), "cudaEventRecord");
  }
  absl::Status WaitForMark(const DeviceStream& other) override {
    return WaitForEvent(static_cast<const CudaStream&>(other).mark_);
  }

 private:
  CudaStream() = default;
  cudaEvent_t EventOf(int64_t launch) const { return events_[launch % events_.size()]; }
  absl::Status WaitForEvent(cudaEvent_t event) {
    return ToStatus(cudaStreamWaitEvent(stream_, event, 0), "cudaStreamWaitEvent");
  }

  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;  // of launches, in turn
  cudaEvent_t mark_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int gpu) : gpu_(gpu) {}
  ~CudaDevice() override {
    static_cast<void>(cudaSetDevice(gpu_));
    for (void* block : device_) cudaFree(block);
    for (void* block : pinned_) cudaFreeHost(block);
  }

  absl::Status Attach() override {
    const cudaError_t error = cudaSetDevice(gpu_);
    if (error == cudaSuccess) return absl::OkStatus();  // No name is made up: steps call this.
    return ToStatus(error, absl::StrCat("GPU ", gpu_));
  }

  absl::StatusOr<std::byte*> Allocate(proto::MemoryKind kind, int64_t bytes) override {
    if (bytes == 0) return nullptr;
    RETURN_IF_ERROR(Attach());
    void* block = nullptr;
    const std::string what = absl::StrCat(kind == proto::HOST_PINNED ? "pinned memory" : "memory",
                                          " of GPU ", gpu_, ", ", bytes, " bytes");
    if (kind == proto::HOST_PINNED) {
      RETURN_IF_ERROR(ToStatus(cudaHostAlloc(&block, bytes, cudaHostAllocPortable), what));
      pinned_.push_back(block);
      std::fill_n(static_cast<std::byte*>(block), bytes, std::byte{0});
    } else {
      RETURN_IF_ERROR(ToStatus(cudaMalloc(&block, bytes), what));
      device_.push_back(block);
      RETURN_IF_ERROR(ToStatus(cudaMemset(block, 0, bytes), what));
    }
    return static_cast<std::byte*>(block);
  }

  absl::StatusOr<std::unique_ptr<DeviceStream>> MakeStream(int queue) override {
    RETURN_IF_ERROR(Attach());
    return CudaStream::Make(queue);
  }

  absl::Status Synchronize() override {
    return ToStatus(cudaDeviceSynchronize(), absl::StrCat("GPU ", gpu_));
  }

 private:
  const int gpu_;
  std::vector<void*> device_, pinned_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int gpu) {
  int count = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceCount(&count), "no GPU"));
  if (gpu >= count) {
    return absl::UnavailableError(
        absl::StrCat("GPU ", gpu, " is not there: the driver shows ", count));
  }
  cudaDeviceProp properties;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties"));
  if (properties.major < kLeastCapability) {
    return InputError(
        absl::StrCat("GPU ", gpu, " (", properties.name, ")"),
        absl::StrCat("has compute capability ", properties.major, ".", properties.minor),
        "use one of 8.0 or more");
  }
  return std::make_unique<CudaDevice>(gpu);
}

}  // namespace oneflow::cuda
