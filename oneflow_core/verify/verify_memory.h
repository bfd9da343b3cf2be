// Proves that no byte has two owners at once: happens-before over the program's net unrolled over
// two steps, so that the wrap-around from one step to the next is covered.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/net/steady_state.h"

namespace oneflow {

// FAILED_PRECONDITION if a register is written while another that overlaps it in the arena may
// still be read, written or waited for; the message names the pair. Requires VerifyProgramTypes and
// VerifyLiveness.
absl::Status VerifyMemory(const PlanNet& net, Play play = Play::kSkipCycles);

}  // namespace oneflow
