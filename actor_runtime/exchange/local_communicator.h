// A communicator of threads of one process. Members read each other's entered registers in place.
// Whoever looks first when all have entered takes pieces of the work, those of other members too: a
// member inside a long kernel holds nobody.
#pragma once

#include <memory>

#include "actor_runtime/exchange/communicator.h"

namespace oneflow {

// `tensors`: the most that an exchange has.
std::unique_ptr<Communicator> MakeLocalCommunicator(int members, int tensors);

}  // namespace oneflow
