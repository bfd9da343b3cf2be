// Values of a checkpoint or a model's files in the element type of a piece. Internal to this
// folder.
#pragma once

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/plan.pb.h"

namespace oneflow {

// True of types among which a stored value is converted: f32 and bf16.
bool Converts(DType dtype);
// An input error names the variable of another type.
absl::Status CheckConverts(const std::string& variable, DType dtype);

// Fills piece.data, f32 or bf16, with what `read` gives in type `stored`, f32 or bf16. The slice is
// read into piece.data where the types agree; else in slices of at most kSliceElements, each value
// of which is converted once.
absl::Status FillConverted(
    const Piece& piece, DType stored,
    absl::FunctionRef<absl::Status(const Slice& slice, std::byte* data)> read);

// Calls fn for each variable of the plan that its graph has, not for states of the optimizer, until
// an error.
absl::Status CheckGraphVariables(const proto::Plan& plan,
                                 absl::FunctionRef<absl::Status(const proto::Variable&)> fn);

}  // namespace oneflow
