// Choices that ask for another one, or exclude it.
//
//   RETURN_IF_ERROR(CheckNeeds(RunRows(), run));  // "--keep: acts only with --checkpoint_dir; ..."
#pragma once

#include <google/protobuf/message.h>

#include <span>

#include "absl/status/status.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {

// An input error where a field has another value than its default, and none of Row::needs is there,
// or Row::conflicts is. `message` has no defaults of its own.
absl::Status CheckNeeds(std::span<const Row> rows, const google::protobuf::Message& message);

}  // namespace oneflow
