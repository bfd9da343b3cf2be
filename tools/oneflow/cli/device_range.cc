#include "tools/oneflow/cli/device_range.h"

#include "absl/strings/numbers.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {
namespace {

absl::StatusOr<int64_t> ParseNumber(const std::string& text, const std::string& number) {
  int64_t devices = 0;
  if (!absl::SimpleAtoi(number, &devices)) {
    return InputError("--devices=" + text, "is no whole number",
                      "write it in digits, e.g. --devices=4");
  }
  if (devices >= 1 && devices <= kMaxDevices) return devices;
  return InputError("--devices=" + text, "is out of range",
                    "use 1 or more, at most " + std::to_string(kMaxDevices));
}

}  // namespace

absl::StatusOr<int64_t> ParseDevices(const std::string& text) {
  if (text.find("..") == std::string::npos) return ParseNumber(text, text);
  return InputError("--devices=" + text, "is a range, and one number is needed",
                    "write e.g. --devices=64; `oneflow search --pareto` takes a range");
}

absl::StatusOr<std::vector<int64_t>> ParseDeviceRange(const std::string& text) {
  const size_t dots = text.find("..");
  ASSIGN_OR_RETURN(const int64_t first, ParseNumber(text, text.substr(0, dots)));
  if (dots == std::string::npos) return std::vector<int64_t>{first};
  ASSIGN_OR_RETURN(const int64_t last, ParseNumber(text, text.substr(dots + 2)));
  std::vector<int64_t> range;
  for (int64_t devices = first; devices <= last; devices *= 2) range.push_back(devices);
  if (!range.empty() && range.back() == last) return range;
  return InputError("--devices=" + text, "is no range of doublings",
                    "write e.g. --devices=64..1024: 64, 128, 256, 512 and 1024");
}

}  // namespace oneflow
