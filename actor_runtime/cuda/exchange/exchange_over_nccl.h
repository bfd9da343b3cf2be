// Makes the ranks of a backend exchange over NCCL, each on a GPU of its own.
//
//   ASSIGN_OR_RETURN(Nccl nccl, OpenNccl(places));
//   RETURN_IF_ERROR(ExchangeOverNccl(std::move(nccl), IdsInMemory(), &backend));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

// Sets variables of the environment that NCCL reads with its first communicator, where the user has
// not; the process has no other threads yet.
//   NCCL_NVLS_ENABLE=0           sums by switches differ from run to run
//   NCCL_LAUNCH_ORDER_IMPLICIT=1 kernels of several communicators start in the order in which they
//                                are given to a device (from version 2.26 on)
//   NCCL_RUNTIME_CONNECT=0       connections are made before the first step
//   NCCL_SOCKET_IFNAME           `interface`, the network device on which processes meet and, where
//                                they have nothing faster, exchange
void SetNcclVariables(const std::string& interface);

// Sets make_launch and make_communicator, and those of the variables that are about one process,
// where they are not set yet. `ids`: between the processes of the run.
absl::Status ExchangeOverNccl(Nccl nccl, IdExchange ids, DeviceBackend* backend);

}  // namespace oneflow::cuda
