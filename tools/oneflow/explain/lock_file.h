// Locks of plans (planning/lock): `compile --lock` writes one, `diff --lock` holds a plan against
// one.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/print/report.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// Refuses --lock where the plan would depend on the machine that compiles it.
absl::Status CheckLockable(const Arguments& args);

// Writes --lock, if it is given. `headline`: MakeHeadline's of the plan, on ClusterToSimulate. An
// input error where the plan does not train, or no time of a step is known for want of a cluster.
absl::Status WriteLock(const Arguments& args, const PricedPlan& priced, const Report& headline);

// `oneflow diff --lock`: prints what differs; an ExceededError where --fail_above does not allow
// it.
absl::Status DiffLock(const Arguments& args);

}  // namespace oneflow
