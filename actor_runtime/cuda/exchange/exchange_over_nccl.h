// Makes the ranks of a backend exchange over NCCL, each on a GPU of its own.
//
//   ASSIGN_OR_RETURN(Nccl nccl, OpenNccl(places));
//   RETURN_IF_ERROR(ExchangeOverNccl(std::move(nccl), IdsInMemory(), &backend));
#pragma once

#include "absl/status/status.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

// Sets make_launch and make_communicator. It sets variables of the environment that NCCL reads with
// its first communicator, where the user has not; so the process has no other threads yet.
//   NCCL_NVLS_ENABLE=0           sums by switches differ from run to run
//   NCCL_LAUNCH_ORDER_IMPLICIT=1 kernels of several communicators start in the order in which they
//                                are given to a device (from version 2.26 on)
//   NCCL_RUNTIME_CONNECT=0       connections are made before the first step
// `ids`: between the processes of the run.
absl::Status ExchangeOverNccl(Nccl nccl, IdExchange ids, DeviceBackend* backend);

}  // namespace oneflow::cuda
