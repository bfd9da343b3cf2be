// Sizes as people write them.
//
//   ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--memory", "80GiB"));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

// Bytes of "80GiB", "80Gi", "80G" (the same), "512MB", "512 MB" or "1000". An input error, which
// names `flag`, unless there are 1 or more, and fewer than 2^63.
absl::StatusOr<int64_t> ParseBytes(const std::string& flag, const std::string& text);

}  // namespace oneflow
