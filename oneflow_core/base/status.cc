#include "oneflow_core/base/status.h"

#include "absl/strings/cord.h"

namespace oneflow {
namespace {

constexpr char kExceeded[] = "oneflow/exceeded";
constexpr char kHint[] = "oneflow/hint";  // tools/python/bindings shows it apart

}  // namespace

absl::Status ExceededError(std::string_view message) {
  absl::Status status = absl::FailedPreconditionError(ToAbsl(message));
  status.SetPayload(kExceeded, absl::Cord());
  return status;
}

absl::Status InputError(std::string_view where, std::string_view what, std::string_view hint) {
  std::string message;
  message.append(where).append(": ").append(what);
  if (hint.empty()) return absl::InvalidArgumentError(message);
  message.append("; ").append(hint);
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kHint, absl::Cord(ToAbsl(hint)));
  return status;
}

absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), ToAbsl(message));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { result.SetPayload(type, payload); });
  return result;
}

absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  std::string message(prefix);
  message.append(": ").append(ToStd(status.message()));
  return WithMessage(status, message);
}

int ExitCode(const absl::Status& status) {
  if (status.GetPayload(kExceeded)) return 3;
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss: return 2;
    default: return 1;
  }
}

}  // namespace oneflow
