// A communicator of asynchronous devices that share a memory: ranks on one GPU. The last member to
// enter gives the kernels of the full exchange to its stream, behind the launches of all members,
// and the other streams wait for these kernels. So no kernel waits for another, and the bits are
// those of ExchangeWork.
#pragma once

#include <memory>

#include "actor_runtime/exchange/communicator.h"

namespace oneflow {

// Poll returns kOver once the exchange has been given to the streams; it has run when the streams
// say so. Entries name the streams of their members; works have kernels. `tensors`: the most
// tensors that an exchange has.
std::unique_ptr<Communicator> MakeStreamCommunicator(int members, int tensors);

}  // namespace oneflow
