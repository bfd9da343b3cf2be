#include "actor_runtime/cuda/backend.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/cuda/device/copy.h"
#include "actor_runtime/cuda/device/cuda_device.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "actor_runtime/cuda/kernel/make_kernel.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/cuda/status.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

// State that the devices of a process share: handles of libraries, one set a GPU.
class Gpus {
 public:
  Gpus(LibraryPaths paths, int count) : paths_(std::move(paths)), count_(count) {}

  int count() const { return count_; }

  // The libraries of the current GPU.
  absl::StatusOr<Libraries> LibrariesOfCurrent() {
    int gpu = 0;
    RETURN_IF_ERROR(ToStatus(cudaGetDevice(&gpu), "cudaGetDevice"));
    const auto known = libraries_.find(gpu);
    if (known != libraries_.end()) return known->second.libraries();
    ASSIGN_OR_RETURN(DeviceLibraries opened, DeviceLibraries::Open(paths_));
    return libraries_.emplace(gpu, std::move(opened)).first->second.libraries();
  }

 private:
  const LibraryPaths paths_;
  const int count_;
  std::map<int, DeviceLibraries> libraries_;  // by GPU
};

absl::StatusOr<bool> ReadEachOther(int a, int b) {
  int there = 0, back = 0;
  RETURN_IF_ERROR(ToStatus(cudaDeviceCanAccessPeer(&there, a, b), "cudaDeviceCanAccessPeer"));
  RETURN_IF_ERROR(ToStatus(cudaDeviceCanAccessPeer(&back, b, a), "cudaDeviceCanAccessPeer"));
  return there != 0 && back != 0;
}

absl::Status LetRead(int reader, int other) {
  RETURN_IF_ERROR(ToStatus(cudaSetDevice(reader), "cudaSetDevice"));
  const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) {
    return ToStatus(error, "cudaDeviceEnablePeerAccess");
  }
  static_cast<void>(cudaGetLastError());  // It is no error of a launch.
  return absl::OkStatus();
}

// As many of the GPUs, from the first on, as read each other's memory; lets them do so.
absl::StatusOr<int> JoinMemories(int count) {
  int joined = 1;
  for (bool reads = true; reads && joined < count; joined += reads ? 1 : 0) {
    for (int other = 0; reads && other < joined; ++other) {
      ASSIGN_OR_RETURN(reads, ReadEachOther(joined, other));
    }
  }
  for (int a = 0; a < joined; ++a) {
    for (int b = 0; b < joined; ++b) {
      if (a != b) RETURN_IF_ERROR(LetRead(a, b));
    }
  }
  return joined;
}

absl::StatusOr<DeviceFacts> ReadFacts(int gpu) {
  RETURN_IF_ERROR(ToStatus(cudaSetDevice(gpu), "cudaSetDevice"));
  cudaDeviceProp properties;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties"));
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  return DeviceFacts{gpu, properties.name, static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

}  // namespace

absl::StatusOr<int> FirstGpu(int visible, int own, int ranks_of_host, int ranks_before) {
  if (visible >= ranks_of_host) return ranks_before;
  if (visible == own) return 0;
  if (ranks_of_host > own) {
    return absl::UnavailableError(absl::StrCat("the processes of this host run ", ranks_of_host,
                                               " ranks of the plan, and ", "this one sees ",
                                               visible,
                                               " GPUs: show each all of them, or as many as it has "
                                               "ranks, which are ",
                                               own));
  }
  return absl::UnavailableError(absl::StrCat("the plan is for ", own, " GPUs, this machine has ",
                                             visible, ": with --logical_devices ranks share them"));
}

void PrepareToMeet(const std::string& interface) {
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  SetNcclVariables(interface.empty() ? "lo" : interface);
}

absl::StatusOr<DeviceBackend> OpenBackend(const BackendOptions& options) {
  // Read by the driver when the first call reaches it. Else a kernel is loaded by its first launch,
  // which waits for the device.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  int count = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceCount(&count), "no GPU can be used"));
  if (count == 0) return absl::UnavailableError("no GPU: the driver shows none");
  const RankRange own = options.own.size() > 0 ? options.own : RankRange{0, options.ranks};
  int first = 0;
  if (!options.logical_devices) {
    ASSIGN_OR_RETURN(first,
                     FirstGpu(count, own.size(), std::max<int>(own.size(), options.ranks_of_host),
                              options.ranks_before));
  }
  if (options.ranks > 1 && options.logical_devices) {
    ASSIGN_OR_RETURN(count, JoinMemories(count));
  }
  const auto gpus = std::make_shared<Gpus>(options.paths, count);
  DeviceBackend backend;
  backend.kind = proto::CUDA;
  const auto gpu_of = [gpus, shared = options.logical_devices, first, own](int rank) {
    return shared ? rank % gpus->count() : first + rank - own.begin;
  };
  backend.make_device = [gpu_of](int rank) { return MakeCudaDevice(gpu_of(rank)); };
  backend.facts_of = [gpu_of](int rank) { return ReadFacts(gpu_of(rank)); };
  backend.make_kernel = [gpus](Device& device, const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    if (IsCopy(setup)) return MakeCopy(setup);
    RETURN_IF_ERROR(device.Attach());
    ASSIGN_OR_RETURN(const Libraries libraries, gpus->LibrariesOfCurrent());
    return MakeCudaKernel(setup, libraries);
  };
  if (options.ranks > 1 && !options.logical_devices) {
    ASSIGN_OR_RETURN(Nccl nccl, OpenNccl(options.paths));
    ExchangeOverNccl(std::move(nccl), options.ids, &backend);
  }
  return backend;
}

bool IsBuiltIn() { return true; }

}  // namespace oneflow::cuda
