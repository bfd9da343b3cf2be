// Plans of actors that compute nothing: what is left is the cost of the actors themselves.
#pragma once

#include "proto/plan.pb.h"

namespace oneflow {

// One device, one stream: `actors` in a chain, each joined to the next by a register of one slot. A
// step fires each once.
proto::Plan ChainOfActors(int actors);

// Two devices. A step is one round trip: a fill to the other device, and its answer.
proto::Plan PingPong();

// A device a stage, each fed by the one before through a register of two slots; a step is
// `micro_batches` of them.
proto::Plan Pipeline(int stages, int micro_batches);

}  // namespace oneflow
