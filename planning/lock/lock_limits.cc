// Limits of growth, as --fail_above has them.
#include <cctype>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "planning/lock/compare_locks.h"

namespace oneflow {
namespace {

constexpr char kLimitExample[] = "write a list such as bytes:1%,step:5ms,exchanges:100MiB";

// The number before a unit; none where the text has another unit, or no number that is 0 or more.
std::optional<double> NumberBefore(std::string_view unit, std::string_view text) {
  double number = 0;
  if (!text.ends_with(unit)) return std::nullopt;
  text.remove_suffix(unit.size());
  const bool starts_right = !text.empty() && (std::isdigit(text[0]) != 0 || text[0] == '.');
  if (!starts_right || !absl::SimpleAtod(ToAbsl(text), &number) || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<double> ParseSeconds(const std::string& where, const std::string& text) {
  for (const auto& [unit, seconds] :
       {std::pair("us", 1e-6), std::pair("ms", 1e-3), std::pair("s", 1.0)}) {
    if (const auto number = NumberBefore(unit, text)) return *number * seconds;
  }
  return InputError(where, "is no share and no time", "write step:2% or step:5ms");
}

absl::StatusOr<LockLimit> ParseLimit(const std::string& where, const std::string& name,
                                     const std::string& text) {
  LockLimit limit{.text = text};
  if (text.ends_with('%')) {
    const std::optional<double> percent = NumberBefore("%", text);
    if (!percent) return InputError(where, "is no share", "write " + name + ":1%");
    limit.share = *percent / 100;
  } else if (name == "step") {
    ASSIGN_OR_RETURN(limit.most, ParseSeconds(where, text));
  } else if (text != "0") {
    ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(where, text));
    limit.most = static_cast<double>(bytes);
  }
  return limit;
}

}  // namespace

absl::StatusOr<LockLimits> ParseLockLimits(const std::string& text) {
  LockLimits limits;
  const std::pair<const char*, std::optional<LockLimit>*> known[] = {
      {"bytes", &limits.bytes}, {"step", &limits.step}, {"exchanges", &limits.exchanges}};
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const size_t colon = part.find(':');
    const std::string name = part.substr(0, colon), where = "--fail_above=" + part;
    std::optional<LockLimit>* limit = nullptr;
    for (const auto& [key, value] : known) {
      if (name == key) limit = value;
    }
    if (limit == nullptr)
      return InputError(where, "names no bytes, step or exchanges", kLimitExample);
    if (colon == part.npos) return InputError(where, "has no limit", kLimitExample);
    if (*limit) return InputError(where, "is given twice", "give each limit once");
    ASSIGN_OR_RETURN(*limit, ParseLimit(where, name, part.substr(colon + 1)));
  }
  return limits;
}

}  // namespace oneflow
