// OpenBackend: the GPUs of this machine as devices of a runtime.
//
//   ASSIGN_OR_RETURN(const DeviceBackend backend, cuda::OpenBackend({.paths = paths}));
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, {.backend = &backend}));
//
// The runtime must not outlive it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/open_library.h"
#include "actor_runtime/exec/device_backend.h"
#include "actor_runtime/exec/net.h"

namespace oneflow::cuda {

struct BackendOptions {
  LibraryPaths paths;  // where libraries are searched
  int ranks = 1;       // of the plan
  RankRange own;       // of this process, consecutive ranks; empty: all
  // Ranks of all processes of this host, and of the processes before this one; 0: this process
  // alone.
  int ranks_of_host = 0, ranks_before = 0;
  // If true, ranks share those GPUs in turn that can read each other's memory, and exchange there;
  // requires that all ranks are in this process. If false, each rank has one GPU (FirstGpu), and
  // exchanges use NCCL.
  bool logical_devices = false;
  IdExchange ids = IdsInMemory();  // between the processes of the run
};

// The GPU of the first of `own` ranks; the next ranks have the GPUs that follow. If the process
// sees enough GPUs for all ranks of its host, they are taken in the order of processes; if it sees
// as many as it has ranks, the launcher has chosen them. UNAVAILABLE: there are too few.
absl::StatusOr<int> FirstGpu(int visible, int own, int ranks_of_host, int ranks_before);

// For a process of a run of several, before it has other threads: sets the environment variables
// that CUDA and NCCL read, unless the user has set them. `interface`: the network device on which
// NCCL connects to other processes; empty: loopback.
void PrepareToMeet(const std::string& interface);

// Called before the process calls CUDA: it makes CUDA load kernels before they are launched
// (CUDA_MODULE_LOADING=EAGER, unless the environment sets it). UNAVAILABLE if there are too few
// GPUs; NOT_FOUND if a library is missing; both as one sentence.
absl::StatusOr<DeviceBackend> OpenBackend(const BackendOptions& options);

// False in a build without CUDA, where OpenBackend is FAILED_PRECONDITION.
bool IsBuiltIn();

}  // namespace oneflow::cuda
