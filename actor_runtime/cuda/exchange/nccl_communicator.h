// A communicator whose exchanges NCCL carries, for the members of a group that are in this process,
// each on a separate GPU. An entered exchange is given to the member's stream at once, so Poll
// never returns kWaiting. No exchange is over on a member's stream before all members have entered
// it; a GPU whose peers never enter waits until Abort.
//
// If a GPU is in several groups, members enter in one order on all GPUs (the plan's order of
// issue), because NCCL's kernels wait for each other on the device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

// Returns when all members of the group have called it, each in its process, and have exchanged a
// first message with each other, so no connection is made while a program runs. Entries name works
// with launches (nccl_launch.h). An error that NCCL reports afterwards aborts the communicator.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const Nccl& nccl,
                                                                   const IdExchange& ids,
                                                                   const DeviceGroup& group);

}  // namespace oneflow::cuda
