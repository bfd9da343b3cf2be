// --devices: a number of devices, or a range of doublings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

// "64"; errors name the flag.
absl::StatusOr<int64_t> ParseDevices(const std::string& text);

// "64..1024" -> 64, 128, 256, 512, 1024; "64" -> 64.
absl::StatusOr<std::vector<int64_t>> ParseDeviceRange(const std::string& text);

}  // namespace oneflow
