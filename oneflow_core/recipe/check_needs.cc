#include "oneflow_core/recipe/check_needs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

using google::protobuf::Message;

bool IsSaid(const Row& row, const Message& message) {
  return HasField(row, message) && FieldText(row, message) != row.default_text;
}

// "resume=true", or "eval_data", whatever its value.
bool IsThere(std::span<const Row> rows, const Message& message, std::string_view which) {
  const size_t equals = which.find('=');
  const Row* other = FindRow(rows, which.substr(0, equals));
  if (other == nullptr || !IsSaid(*other, message)) return false;
  return equals == which.npos || FieldText(*other, message) == which.substr(equals + 1);
}

}  // namespace

absl::Status CheckNeeds(std::span<const Row> rows, const Message& message) {
  for (const Row& row : rows) {
    if (!IsSaid(row, message)) continue;
    const std::string where = absl::StrCat("--", ToAbsl(row.name));
    const std::vector<std::string> needs =
        absl::StrSplit(ToAbsl(row.needs), ' ', absl::SkipEmpty());
    const auto is_there = [&](const std::string& name) { return IsThere(rows, message, name); };
    if (!needs.empty() && std::none_of(needs.begin(), needs.end(), is_there)) {
      const auto add = [&](std::string* text, const std::string& name) {
        const Row& row = *FindRow(rows, name);
        absl::StrAppend(text, "--", name, row.value.empty() ? "" : "=", ToAbsl(row.value));
      };
      return InputError(where, "acts only with --" + absl::StrJoin(needs, " or --"),
                        "add " + absl::StrJoin(needs, " or ", add) + ", or leave it out");
    }
    if (row.conflicts.empty() || !IsThere(rows, message, row.conflicts)) continue;
    return InputError(where,
                      absl::StrCat("cannot be given together with --", ToAbsl(row.conflicts)),
                      "leave one of the two out");
  }
  return absl::OkStatus();
}

}  // namespace oneflow
