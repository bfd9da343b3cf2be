// A communicator of devices that share a memory and run by themselves: ranks on one GPU. The last
// member to enter gives its stream, behind what all members were given, the kernels of the whole
// exchange, and their streams wait for these. So no kernel waits for another, and the bits are
// those of ExchangeWork.
#pragma once

#include <memory>

#include "actor_runtime/exchange/communicator.h"

namespace oneflow {

// Poll says kOver once the exchange has been given to the streams: it is over when they say so.
// Entries name the streams of their members; works have kernels. `tensors`: the most that an
// exchange has.
std::unique_ptr<Communicator> MakeStreamCommunicator(int members, int tensors);

}  // namespace oneflow
