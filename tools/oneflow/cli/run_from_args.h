// From arguments to a run.
#pragma once

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// What the flags say of a run, its optimizer among it; all else is absent. Input errors are those
// of SetField.
absl::StatusOr<proto::Run> RunFromArgs(const Arguments& args);

}  // namespace oneflow
