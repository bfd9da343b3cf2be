// Makes the ranks of a backend exchange over NCCL, each on a GPU of its own.
//
//   ExchangeOverNccl([places] { return OpenNccl(places); }, IdsInMemory(), &backend);
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

// Sets make_launch and make_communicator. `open` is called once, when a plan that has exchanges is
// loaded: a single GPU needs no NCCL. NCCL reads its environment then, in which is set, where the
// user has not:
//   NCCL_NVLS_ENABLE=0           sums by switches differ from run to run
//   NCCL_LAUNCH_ORDER_IMPLICIT=1 kernels of several communicators start in the order in which they
//                                are given to a device (from version 2.26 on)
//   NCCL_RUNTIME_CONNECT=0       connections are made before the first step
// `ids`: between the processes of the run.
void ExchangeOverNccl(std::function<absl::StatusOr<Nccl>()> open, IdExchange ids,
                      DeviceBackend* backend);

}  // namespace oneflow::cuda
