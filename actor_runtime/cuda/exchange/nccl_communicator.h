// A communicator whose exchanges NCCL carries, for the members of a group that are in this process,
// each on a separate GPU. Poll gives an entered exchange to the member's stream, in stages; it
// returns kWaiting while NCCL, which never blocks, has not taken one. No exchange is over on a
// member's stream before all members have entered it; a GPU whose peers never enter waits until
// Abort.
//
// If a GPU is in several groups, members enter in one order on all GPUs (the plan's order of
// issue), because NCCL's kernels wait for each other on the device.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/exchange/id_exchange.h"
#include "actor_runtime/cuda/exchange/nccl_comms.h"
#include "actor_runtime/exchange/carrier.h"
#include "actor_runtime/exchange/communicator.h"

namespace oneflow::cuda {

// Returns when all members of the group have called it, each in its process, and have made a first
// sum, and a first exchange of messages with the peers that `use.works` have, so no connection is
// made while a program runs. `name`: the same in all processes; no other group has it, in no run.
// DEADLINE_EXCEEDED: they did not in time. Entries name works with launches
// (nccl_launch.h). An error that NCCL reports afterwards aborts the communicator, and those that
// are joined with it.
absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(std::shared_ptr<NcclComms> comms,
                                                                   const IdExchange& ids,
                                                                   const std::string& name,
                                                                   const GroupUse& use);

}  // namespace oneflow::cuda
