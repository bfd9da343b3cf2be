// The GPUs of this machine as devices of a runtime.
//
//   ASSIGN_OR_RETURN(const DeviceBackend backend, cuda::OpenBackend({.paths = places}));
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
  LibraryPaths paths;  // where libraries are looked for
  int ranks = 1;       // of the plan
  RankRange own;       // of this process, consecutive ones; empty: all
  // Ranks of all processes of this host, and of those that come before this one; 0: own ones alone.
  int ranks_of_host = 0, ranks_before = 0;
  // Ranks share the GPUs there are, in turn, as far as these read each other's memory, and exchange
  // there; requires that all ranks are own. Else each has a GPU (FirstGpu), and exchanges go over
  // NCCL.
  bool logical_devices = false;
  IdExchange ids = IdsInMemory();  // between the processes of the run
};

// The GPU of the first of `own` ranks; the next ones have those that follow. Where the process sees
// enough GPUs for all ranks of its host, they are taken in the order of processes; where it sees as
// many as it has ranks, whoever started it has chosen them. UNAVAILABLE: there are too few.
absl::StatusOr<int> FirstGpu(int visible, int own, int ranks_of_host, int ranks_before);

// For a process of a run of several, while it has no other threads yet: what CUDA and NCCL read in
// the environment, where the user has not set it. `interface`: the network device on which NCCL
// meets other processes; empty: loopback.
void PrepareToMeet(const std::string& interface);

// To be called before the process calls CUDA: it has kernels loaded before they are launched
// (CUDA_MODULE_LOADING=EAGER, where the environment does not say otherwise).
// UNAVAILABLE where there are too few GPUs; NOT_FOUND where a library is missing: in one sentence.
absl::StatusOr<DeviceBackend> OpenBackend(const BackendOptions& options);

}  // namespace oneflow::cuda
