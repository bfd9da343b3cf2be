// A communicator whose exchanges NCCL carries: the members of a group that are in this process,
// each on a GPU of its own. What a member enters is given to its stream at once, so Poll never says
// kWaiting. Nothing is over on a member's stream before all members have entered it; a GPU whose
// others never enter waits until Abort.
//
// Members enter in one order on all GPUs where a GPU is in several groups (the plan's order of
// issue): NCCL's kernels wait for each other on the device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/exchange/communicator.h"
#include "actor_runtime/exec/device_backend.h"

namespace oneflow::cuda {

// Returns when all members of the group have called it, each in its process, and have exchanged a
// first word with each other: so no connection is made while a program runs. Entries name works
// with launches (nccl_launch.h). What NCCL reports of a communicator afterwards aborts it.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(const Nccl& nccl,
                                                                   const IdExchange& ids,
                                                                   const DeviceGroup& group);

}  // namespace oneflow::cuda
