// Checks that the rates of a program balance: a step must bring every register back to its initial
// marking.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// 1. Slots, firings a fill and firings a read are at least 1; fills that wait at the start find
//    slots.
// 2. In one step the writer makes an integer number of fills, and every reader reads as many.
// A program that breaks one of them is inconsistent: it deadlocks sooner or later in any order, or
// never returns to its initial marking. Requires registers and actors whose ids fit (MakePlanNet).
absl::Status VerifyRates(const PlanNet& net);

}  // namespace oneflow
