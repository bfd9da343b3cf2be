#include "tests/cuda/host_backend.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "actor_runtime/cuda/device/copy.h"
#include "actor_runtime/cuda/device/cuda_device.h"
#include "actor_runtime/cuda/status.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Workspace of the CPU's kernels, for which the plan was not made: more than any kernel of a small
// model needs.
constexpr int64_t kWorkspace = int64_t{1} << 24;

// State that kernels share, one at a time.
struct Shared {
  std::mutex mutex;
  ThreadPool pool{1};
  std::vector<std::byte> memory = std::vector<std::byte>(kWorkspace + 64);
  std::span<std::byte> workspace{
      memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64), kWorkspace};
};

// A kernel with what it is called with, which the caller may change before it runs.
struct Work {
  std::shared_ptr<Shared> shared;
  Kernel kernel;
  KernelCall call;
  std::vector<const std::byte*> pointers;
  std::vector<std::span<const std::byte* const>> in;
  std::vector<std::byte*> out;
};

void Run(void* argument) {
  const std::unique_ptr<Work> work(static_cast<Work*>(argument));
  const std::lock_guard lock(work->shared->mutex);
  const absl::Status status = work->kernel(work->call);
  if (!status.ok()) std::abort();  // kernels of training do not fail
}

class HostKernel {
 public:
  HostKernel(Kernel kernel, std::shared_ptr<Shared> shared)
      : kernel_(std::move(kernel)), shared_(std::move(shared)) {}

  absl::Status operator()(const KernelCall& call) const {
    auto work = std::make_unique<Work>();
    work->shared = shared_;
    work->kernel = kernel_;
    work->call = call;
    for (const auto& sources : call.in) {
      work->pointers.insert(work->pointers.end(), sources.begin(), sources.end());
    }
    const std::byte* const* pointer = work->pointers.data();
    for (const auto& sources : call.in) {
      work->in.emplace_back(pointer, sources.size());
      pointer += sources.size();
    }
    work->out.assign(call.out.begin(), call.out.end());
    work->call.in = work->in;
    work->call.out = work->out;
    work->call.pool = &shared_->pool;
    work->call.workspace = shared_->workspace;
    const auto stream = static_cast<cudaStream_t>(call.stream);
    return cuda::ToStatus(cudaLaunchHostFunc(stream, &Run, work.release()), "cudaLaunchHostFunc");
  }

 private:
  Kernel kernel_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

DeviceBackend HostBackend(int gpus, const KernelFactory& make_kernel) {
  DeviceBackend backend;
  backend.kind = proto::CUDA;
  backend.make_device = [gpus](int rank) { return cuda::MakeCudaDevice(rank % gpus); };
  backend.make_kernel = [make_kernel, shared = std::make_shared<Shared>()](
                            Device&, const KernelSetup& s) -> absl::StatusOr<Kernel> {
    if (cuda::IsCopy(s)) return cuda::MakeCopy(s);
    KernelSetup setup = s;
    setup.threads = 1;
    setup.workspace_bytes = kWorkspace;
    ASSIGN_OR_RETURN(Kernel kernel, make_kernel(setup));
    return Kernel(HostKernel(std::move(kernel), shared));
  };
  return backend;
}

}  // namespace oneflow
