// init_variable: writes the initial value of a variable.
//
// Attributes: `name` (the name of the logical variable; `variable` is an alias), `init` ("normal" |
// "uniform" | "zeros" | "ones" | "constant"), `init_value` (the standard deviation, the bound, or
// the constant). Output: the local slice, f32 or f64.
//
// Element i of the logical tensor is a function of (seed, name, i): every sharding, replica and
// thread count gives the same values. Normals, and numbers of [-bound, bound), are computed in f64,
// then rounded.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeInitVariable(const KernelSetup& setup);
KernelTable InitVariableTable();

}  // namespace oneflow
