// Proves that a program cannot deadlock: plays a token game over one step, in which one device
// stands for each stage. A plan is a synchronous dataflow net with fixed stream orders, so the
// order of firing changes neither values nor liveness. One step from the initial marking back to it
// proves all steps and all timings. This game shares no code with the runtime's actors: it is their
// check.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/net/steady_state.h"

namespace oneflow {

// FAILED_PRECONDITION if the program deadlocks; the message is the shortest cycle, as sentences: "F
// of stage 1 waits for a free slot of h, held by B of stage 1, which waits for ...". Requires
// VerifyProgramTypes: if rates balance, a step that ends has come back to its marking.
absl::Status VerifyLiveness(const PlanNet& net, Play play = Play::kSkipCycles);

}  // namespace oneflow
