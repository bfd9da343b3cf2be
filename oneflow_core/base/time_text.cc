#include "oneflow_core/base/time_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {

std::string TimeText(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds >= 1) return absl::StrFormat("%.3f s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.3f ms", seconds * 1e3);
  return absl::StrFormat("%.2f us", seconds * 1e6);
}

std::string NumberText(double value) {
  return std::isnan(value) ? "nan" : absl::StrFormat("%#.5g", value);
}

std::string DigitsText(int64_t number) {
  std::string digits = absl::StrCat(number);
  const int first = number < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string PercentText(double part) { return absl::StrFormat("%.1f %%", 100 * part); }

}  // namespace oneflow
