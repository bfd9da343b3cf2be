// Finds which process of how many this is, and whether a verb of one process alone runs in it.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"
#include "training/job/placement.h"

namespace oneflow {

// A variable of the environment; nothing where it is not set.
std::optional<std::string> Variable(const std::string& name);

// Finds the index of this process and the number of all, by --coordinator, --process_index and
// --processes, or by the variables of a launcher, which `environment` looks up.
absl::StatusOr<JobPlacement> PlacementFromFlags(
    const proto::Run& run,
    absl::FunctionRef<std::optional<std::string>(const std::string&)> environment = Variable);

// True if this process is to do the work of `verb`: process 0 is. If there are several processes,
// or were asked for (flags, torchrun, srun, ...), a line on stderr says so.
absl::StatusOr<bool> WorksAlone(const std::string& verb, const proto::Run& run);

}  // namespace oneflow
