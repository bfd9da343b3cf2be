#include "oneflow_core/base/status.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return InputError("n", "is odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  RETURN_IF_ERROR(absl::OkStatus());
  return quarter;
}

}  // namespace

TEST_CASE("an input error names the place, the fault and the hint") {
  const absl::Status status = InputError("--batch=3", "is not divisible by 2", "use 2 or 4");
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.message() == "--batch=3: is not divisible by 2; use 2 or 4");
  CHECK(InputError("a.txt:3", "no name").message() == "a.txt:3: no name");
}

TEST_CASE("Annotate keeps the code and leaves OK alone") {
  const absl::Status status = Annotate(absl::NotFoundError("no file"), "plan");
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(status.message() == "plan: no file");
  CHECK(Annotate(absl::OkStatus(), "plan").ok());
}

TEST_CASE("exit codes tell bad input from failure") {
  CHECK(ExitCode(absl::OkStatus()) == 0);
  CHECK(ExitCode(InputError("a", "b")) == 2);
  CHECK(ExitCode(absl::NotFoundError("")) == 2);
  CHECK(ExitCode(absl::DataLossError("")) == 2);
  CHECK(ExitCode(absl::InternalError("")) == 1);
  CHECK(ExitCode(absl::UnavailableError("")) == 1);
  CHECK(ExitCode(ExceededError("")) == 3);
  CHECK(ExitCode(Annotate(ExceededError("bytes"), "plan")) == 3);
  CHECK(ExitCode(absl::FailedPreconditionError("")) == 2);
}

TEST_CASE("the macros pass values and errors on") {
  CHECK(*Quarter(8) == 2);
  CHECK(Quarter(7).status().message() == "n: is odd");
  CHECK(Quarter(6).status().message() == "n: is odd");
}

}  // namespace oneflow
