// Sizes as people write them.
//
//   ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory=80GiB", "80GiB"));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace oneflow {

// Bytes of "80GiB", "80Gi", "80G" (the same), "512MB", "512 MB" or "1000". An input error at
// `where`, unless there are 1 or more, and fewer than 2^63.
absl::StatusOr<int64_t> ParseBytes(std::string_view where, std::string_view text);

// The shortest text that ParseBytes takes for the number: "25MB", "80GiB", "1000001".
std::string PrintBytes(int64_t bytes);

}  // namespace oneflow
