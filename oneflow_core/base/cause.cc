#include "oneflow_core/base/cause.h"

#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace oneflow {
namespace {

constexpr char kPayload[] = "oneflow/cause";

}  // namespace

absl::Status WithCause(absl::Status status, const Cause& cause) {
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(cause.process, " ", cause.rank, " ",
                                                      cause.is_consequence ? 1 : 0, " ",
                                                      cause.is_decided ? 1 : 0, " ", cause.host)));
  return status;
}

Cause FindCause(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return {};
  const std::string text(*payload);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 4));
  Cause cause;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[0], &cause.process) ||
      !absl::SimpleAtoi(parts[1], &cause.rank)) {
    return {};
  }
  cause.is_consequence = parts[2] == "1";
  cause.is_decided = parts[3] == "1";
  cause.host = parts[4];
  return cause;
}

absl::Status MarkConsequence(int process, absl::Status status) {
  return WithCause(std::move(status), {.process = process, .is_consequence = true});
}

}  // namespace oneflow
