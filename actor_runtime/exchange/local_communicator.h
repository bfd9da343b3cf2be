// A communicator of threads of one process. Members read each other's entered registers in place.
// Once all have entered, the member that polls first takes pieces of the work, including those of
// other members, so a member inside a long kernel holds nobody up.
#pragma once

#include <memory>

#include "actor_runtime/exchange/communicator.h"

namespace oneflow {

// `tensors`: the most tensors that an exchange has.
std::unique_ptr<Communicator> MakeLocalCommunicator(int members, int tensors);

}  // namespace oneflow
