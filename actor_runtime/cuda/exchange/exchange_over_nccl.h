// ExchangeOverNccl: makes the ranks of a backend exchange over NCCL, each on a separate GPU.
//
//   ASSIGN_OR_RETURN(Nccl nccl, OpenNccl(paths));
//   ExchangeOverNccl(std::move(nccl), IdsInMemory(), &backend);
#pragma once

#include <string>

#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/exchange/nccl_comms.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

// Sets environment variables that NCCL reads with its first communicator, unless the user has set
// them. Requires that the process has no other threads.
//   NCCL_NVLS_ENABLE=0           sums in switches differ from run to run
//   NCCL_LAUNCH_ORDER_IMPLICIT=1 kernels of several communicators start in the order in which they
//                                are given to a device (from version 2.26 on)
//   NCCL_RUNTIME_CONNECT=0       connections are made before the first step
//   NCCL_SOCKET_IFNAME           `interface`, the network device on which processes connect and,
//                                without a faster one, exchange
void SetNcclVariables(const std::string& interface);

// Sets the carrier of a backend that makes kernels, and those of the variables that concern one
// process, unless they are set. `ids` is shared by the processes of the run.
void ExchangeOverNccl(Nccl nccl, IdExchange ids, DeviceBackend* backend,
                      NcclPatience patience = {});

}  // namespace oneflow::cuda
