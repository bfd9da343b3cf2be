#include "oneflow_core/recipe/parse_bytes.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

// Bytes of "", "B", "KB", "KiB", "Ki", "K" and so on, in any case; a single letter is binary, as
// for Slurm and Docker. 0 of what is no unit.
double BytesOfUnit(std::string_view text) {
  const std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(ToAbsl(text)));
  if (unit.empty() || unit == "b" || unit == "byte" || unit == "bytes") return 1;
  constexpr std::string_view kLetters = "kmgtp";
  const size_t power = kLetters.find(unit[0]);
  const std::string rest = unit.substr(1);
  if (power == std::string_view::npos) return 0;
  if (rest != "" && rest != "b" && rest != "i" && rest != "ib") return 0;
  return std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view where, std::string_view text) {
  const std::string bounded(text);
  char* end = nullptr;
  const double number = std::strtod(bounded.c_str(), &end);
  const double scale = BytesOfUnit(end);
  const double bytes = number * scale;
  // Below a byte it would be 0, which limits nothing. NaN fails every comparison.
  if (end == bounded.c_str() || !(bytes >= 1 && bytes < 0x1p63)) {
    return InputError(
        where, "is not a size",
        "write e.g. 80GiB, 80Gi or 80G (the same), 80GB or a number of bytes, 1 or more and "
        "below 2^63");
  }
  return static_cast<int64_t>(bytes);
}

std::string PrintBytes(int64_t bytes) {
  std::string text = absl::StrCat(bytes);
  for (const int64_t base : {1000, 1024}) {
    int64_t number = bytes;
    for (const char letter : {'K', 'M', 'G', 'T', 'P'}) {
      if (number == 0 || number % base != 0) break;
      number /= base;
      const std::string shorter =
          absl::StrCat(number, std::string(1, letter), base == 1000 ? "B" : "iB");
      if (shorter.size() < text.size()) text = shorter;
    }
  }
  return text;
}

}  // namespace oneflow
