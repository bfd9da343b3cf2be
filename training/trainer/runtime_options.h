// The options of a runtime that a run says.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// The instruction set of a name, on a processor that has all up to `best`; "" is `best`.
absl::StatusOr<Isa> ParseIsa(const std::string& name, Isa best);

// Threads (0 where the run says none: the group gives them), instruction set, rates of the host's
// link, synchronous launches.
absl::Status SetRuntimeOptions(const proto::Run& run, RuntimeOptions* options);

}  // namespace oneflow
