// A user's own pipeline order: a file of proto/order.proto is read into a recipe, and becomes a
// schedule.
//
//   stage { task: "F0 F1 B0 F2 B1 F3 B2 B3" }
//   stage { task: "F0 B0 F1 B1 F2 B2 F3 B3" }
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/schedule/schedule.h"
#include "proto/order.pb.h"

namespace oneflow {

// Reads and checks the text as MakeWritten does. Errors begin "file:line:".
absl::StatusOr<proto::PipelineOrder> ParseOrder(std::string_view text, std::string_view file);

// Returns the schedule that `order` states, for the stages, chunks and micro-batches that it names.
// Guarantees: every stage runs every task of every chunk once for each micro-batch, in turn, and
// the orders do not deadlock. Errors begin with its name ("order"
// where it has none) and
// the stage.
absl::StatusOr<Schedule> MakeWritten(const proto::PipelineOrder& order);

// Checks that a schedule which a user wrote fits the mesh and the step; others always do.
absl::Status CheckFits(const Schedule& schedule, int stages, int64_t micro_batches);

}  // namespace oneflow
