// Text that says which actor waits for which.
#pragma once

#include <string>

#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/net.h"

namespace oneflow {

// The condition that the next firing of an actor of the stream waits for: "actor b at rank 0,
// firing 2, waits for fill 3 of actor a at rank 1 (has 2; slot 0)". A return of a reader frees the
// slot. An actor that may fire gives: "actor b at rank 0, firing 2, may fire".
std::string DescribeWait(const ActorNet& net, const StreamOrder& stream, int32_t index,
                         const ActorStates& states);

}  // namespace oneflow
