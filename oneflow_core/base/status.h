// Errors as values. An input error is an absl::Status with the location, the mistake and a hint;
// CHECK (glog) is for our own bugs only.
//
//   ASSIGN_OR_RETURN(Mesh mesh, ParseMesh(text));
//   RETURN_IF_ERROR(Verify(plan));
//   if (n % m != 0) return InputError("--micro_batches=3", "does not divide --batch=16", "use 4");
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {

// A mistake in the user's input. `where`: file:line, op or flag; `what`: the mistake; `hint`: a
// correction (may be empty). Code INVALID_ARGUMENT; message "where: what; hint".
absl::Status InputError(std::string_view where, std::string_view what, std::string_view hint = "");

// What a user asked to be refused, such as a change above a limit, while the input is good. Code
// FAILED_PRECONDITION.
absl::Status ExceededError(std::string_view message);

// WithMessage returns the same status with another message, Annotate with "prefix: " before its
// message.
absl::Status WithMessage(const absl::Status& status, std::string_view message);
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

// Exit code of the command line: 0 good, 3 an ExceededError, 2 bad input (INVALID_ARGUMENT,
// NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION, RESOURCE_EXHAUSTED, DATA_LOSS), 1 everything else.
int ExitCode(const absl::Status& status);

}  // namespace oneflow

#define ONEFLOW_CONCAT_INNER_(a, b) a##b
#define ONEFLOW_CONCAT_(a, b) ONEFLOW_CONCAT_INNER_(a, b)

#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ONEFLOW_ASSIGN_OR_RETURN_(ONEFLOW_CONCAT_(status_or_, __LINE__), lhs, expr)
#define ONEFLOW_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return tmp.status();             \
  lhs = std::move(tmp).value()
