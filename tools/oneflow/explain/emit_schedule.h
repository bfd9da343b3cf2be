// --emit_schedule=FILE: the pipeline order of a plan, as PyTorch reads it.
#pragma once

#include "proto/plan.pb.h"
#include "tools/oneflow/explain/headline.h"

namespace oneflow {

// Writes the CSV of the order, proved to end under PyTorch's rules, and reports what it is: ranks,
// transfers, the micro-batches that each rank holds, the bytes that PyTorch takes for receives
// beyond the plan's. Nothing, and an empty report, without the flag.
absl::StatusOr<Report> EmitSchedule(const proto::Plan& plan);

}  // namespace oneflow
