// The GPUs of this machine as devices of a runtime.
//
//   ASSIGN_OR_RETURN(const DeviceBackend backend, cuda::OpenBackend({.places = places}));
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, {.backend = &backend}));
//
// The runtime must not outlive it.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/open_library.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

struct BackendOptions {
  LibraryPlaces places;  // where libraries are looked for
  int ranks = 1;         // of the plan
  // Ranks share the GPUs there are, in turn, as far as these read each other's memory, and exchange
  // there. Else rank r has GPU r, and exchanges go over NCCL.
  bool logical_devices = false;
  IdExchange ids = IdsInMemory();  // between the processes of a run
};

// To be called before the process calls CUDA: it has kernels loaded before they are launched
// (CUDA_MODULE_LOADING=EAGER, where the environment does not say otherwise).
// UNAVAILABLE where there are too few GPUs; NOT_FOUND where a library is missing: in one sentence.
absl::StatusOr<DeviceBackend> OpenBackend(const BackendOptions& options);

}  // namespace oneflow::cuda
