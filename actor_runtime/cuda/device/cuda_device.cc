#include "actor_runtime/cuda/device/cuda_device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/status.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kLeastCapability = 8;  // bf16 products, asynchronous copies to shared memory

absl::StatusOr<cudaEvent_t> MakeEvent(bool timed) {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
               "cudaEventCreateWithFlags"));
  return event;
}

// An event, and the host's time at which it was over.
struct Clock {
  cudaEvent_t start = nullptr;
  int64_t start_ns = 0;
};

class CudaStream final : public DeviceStream {
 public:
  // `clock`: of the device; null: the stream is not timed.
  static absl::StatusOr<std::unique_ptr<DeviceStream>> Make(int queue, const Clock* clock) {
    const bool timed = clock != nullptr;
    std::unique_ptr<CudaStream> made(new CudaStream(clock));
    RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags"));
    // Times of a launch are measured from the end of the one before.
    for (int i = 0; i < queue + (timed ? 1 : 0); ++i) {
      ASSIGN_OR_RETURN(const cudaEvent_t event, MakeEvent(timed));
      made->events_.push_back(event);
      if (!timed) continue;
      ASSIGN_OR_RETURN(const cudaEvent_t begin, MakeEvent(timed));
      made->begins_.push_back(begin);
    }
    ASSIGN_OR_RETURN(made->mark_, MakeEvent(false));
    return made;
  }

  ~CudaStream() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    for (cudaEvent_t event : begins_) cudaEventDestroy(event);
    if (mark_ != nullptr) cudaEventDestroy(mark_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  void* handle() const override { return stream_; }

  absl::Status WaitFor(const DeviceStream& other, int64_t launch) override {
    return WaitForEvent(static_cast<const CudaStream&>(other).FindEvent(launch));
  }
  absl::Status Record(int64_t launch) override {
    return ToStatus(cudaEventRecord(FindEvent(launch), stream_), "cudaEventRecord");
  }
  absl::StatusOr<bool> IsOver(int64_t launch) override {
    const cudaError_t error = cudaEventQuery(FindEvent(launch));
    if (error == cudaSuccess) return true;
    if (error == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // It is no error of a launch.
      return false;
    }
    return ToStatus(error, "cudaEventQuery");
  }

  absl::Status Begin(int64_t launch) override {
    return ToStatus(cudaEventRecord(begins_[launch % begins_.size()], stream_), "cudaEventRecord");
  }
  // Measured from event to event, because CUDA returns a float, which is exact to some microseconds
  // only for a long time.
  absl::StatusOr<LaunchTimes> ReadTimes(int64_t launch) override {
    if (launch == 0) since_start_ = 0;
    const cudaEvent_t begin = begins_[launch % begins_.size()];
    LaunchTimes times;
    ASSIGN_OR_RETURN(times.begin_ns,
                     Next(launch == 0 ? clock_->start : FindEvent(launch - 1), begin));
    ASSIGN_OR_RETURN(times.end_ns, Next(begin, FindEvent(launch)));
    return times;
  }

  absl::Status Mark() override {
    return ToStatus(cudaEventRecord(mark_, stream_), "cudaEventRecord");
  }
  absl::Status WaitForMark(const DeviceStream& other) override {
    return WaitForEvent(static_cast<const CudaStream&>(other).mark_);
  }

 private:
  explicit CudaStream(const Clock* clock) : clock_(clock) {}
  // The host's time at `to`, if the time at `from` was the last one returned.
  absl::StatusOr<int64_t> Next(cudaEvent_t from, cudaEvent_t to) {
    float milliseconds = 0;
    RETURN_IF_ERROR(
        ToStatus(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime"));
    since_start_ += static_cast<double>(milliseconds) * 1e6;
    return clock_->start_ns + static_cast<int64_t>(since_start_);
  }
  cudaEvent_t FindEvent(int64_t launch) const { return events_[launch % events_.size()]; }
  absl::Status WaitForEvent(cudaEvent_t event) {
    return ToStatus(cudaStreamWaitEvent(stream_, event, 0), "cudaStreamWaitEvent");
  }

  const Clock* const clock_;
  double since_start_ = 0;  // nanoseconds, of the time returned last
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;  // ends of launches, in turn
  std::vector<cudaEvent_t> begins_;
  cudaEvent_t mark_ = nullptr;
};

// For pinned memory, of which the host may have too little.
absl::Status WithHint(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(
      status.message(),
      "; free memory of the host, raise the container's limit of it, or compile for more stages or "
      "smaller micro-batches: `oneflow explain` prints the pinned memory of each GPU"));
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int gpu) : gpu_(gpu) {}
  ~CudaDevice() override {
    static_cast<void>(cudaSetDevice(gpu_));
    if (clock_.start != nullptr) cudaEventDestroy(clock_.start);
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
    const std::string what = absl::StrCat(kind == proto::HOST ? "pinned memory" : "memory",
                                          " of GPU ", gpu_, ", ", bytes, " bytes");
    if (kind == proto::HOST) {
      RETURN_IF_ERROR(
          WithHint(ToStatus(cudaHostAlloc(&block, bytes, cudaHostAllocPortable), what)));
      pinned_.push_back(block);
      std::fill_n(static_cast<std::byte*>(block), bytes, std::byte{0});
    } else {
      RETURN_IF_ERROR(ToStatus(cudaMalloc(&block, bytes), what));
      device_.push_back(block);
      // The default stream fills it, for which no stream of ours waits (cudaStreamNonBlocking), and
      // the call returns before the end.
      RETURN_IF_ERROR(ToStatus(cudaMemset(block, 0, bytes), what));
      RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(nullptr), what));
    }
    return static_cast<std::byte*>(block);
  }

  absl::StatusOr<std::unique_ptr<DeviceStream>> MakeStream(int queue, bool timed) override {
    RETURN_IF_ERROR(Attach());
    return CudaStream::Make(queue, timed ? &clock_ : nullptr);
  }

  absl::Status StartClock() override {
    RETURN_IF_ERROR(Attach());
    if (clock_.start == nullptr) {
      ASSIGN_OR_RETURN(clock_.start, MakeEvent(/*timed=*/true));
    }
    RETURN_IF_ERROR(ToStatus(cudaEventRecord(clock_.start, nullptr), "cudaEventRecord"));
    RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(clock_.start), "cudaEventSynchronize"));
    clock_.start_ns =
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    return ToStatus(cudaDeviceSynchronize(), absl::StrCat("GPU ", gpu_));
  }

 private:
  const int gpu_;
  Clock clock_;
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
