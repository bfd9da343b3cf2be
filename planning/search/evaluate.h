// From a compiled plan to what a search says of it.
#pragma once

#include "absl/status/statusor.h"
#include "planning/search/result.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The plan simulated for two steps: the time of a step, bubble, exchanges, MFU, tokens and bytes.
// Requires a plan that passed VerifyPlan in this process, as one that was just compiled. Errors: it
// has no program train; it has too many firings to simulate in some seconds.
absl::StatusOr<FoundPlan> EvaluatePlan(const proto::Plan& plan, const proto::Recipe& candidate,
                                       const proto::Cluster& cluster);

}  // namespace oneflow
