#include "planning/search/fixes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// The names beside the fields of a recipe: axes in the order of a mesh, and a size.
constexpr std::string_view kSizes[] = {"pipe",    "data",   "expert",
                                       "context", "tensor", "micro_batch_size"};

absl::Status UnknownFix(const std::string& where, const std::string& name) {
  if (name == "mesh") {
    return InputError(where, "the mesh is fixed axis by axis",
                      "write --fix=pipe=2,data=4,tensor=1");
  }
  const std::string nearest = Nearest(name, FixNames());
  return InputError(where, "\"" + name + "\" is nothing that the search chooses",
                    absl::StrCat(nearest.empty() ? "" : "did you mean " + nearest + "? ",
                                 "it chooses ", absl::StrJoin(FixNames(), ", ")));
}

absl::Status AddSize(const std::string& where, const std::string& text, int* size) {
  RETURN_IF_ERROR(CheckScalar(where, "int32", text, ""));
  (void)absl::SimpleAtoi(text, size);
  return CheckRange(where, {.least = 1}, *size);
}

absl::Status AddFix(const std::string& flag, const std::string& name, const std::string& text,
                    Fixes* fixes) {
  const std::string where = absl::StrCat(flag, name, text.empty() ? "" : "=", text);
  if (text.empty()) {
    return InputError(where, "has no value", "write --fix=NAME=VALUE, as --fix=tensor=8");
  }
  Fixes fix;
  const Row* row = FindRow(RecipeRows(), name);
  if (std::find(std::begin(kSizes), std::end(kSizes), name) != std::end(kSizes)) {
    RETURN_IF_ERROR(AddSize(where, text, &fix.sizes[name]));
  } else if (row != nullptr && row->searched == Searched::kChosen) {
    Row plain = *row;  // what is not fixed is searched, and has no default
    plain.default_text = plain.sentence = "";
    RETURN_IF_ERROR(SetField(plain, text, &fix.recipe, flag));
  } else {
    return UnknownFix(where, name);
  }
  for (const std::string& known : ListFixes(*fixes)) {
    if (known == ToString(fix)) return absl::OkStatus();
    if (known.starts_with(name + "=")) {
      return InputError(where, "contradicts an earlier --fix=" + known, "give it once");
    }
  }
  fixes->recipe.MergeFrom(fix.recipe);
  fixes->sizes.merge(fix.sizes);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> FixNames() {
  std::vector<std::string> names(std::begin(kSizes), std::end(kSizes));
  for (const Row& row : RecipeRows()) {
    if (row.searched == Searched::kChosen) names.emplace_back(row.name);
  }
  return names;
}

absl::Status AddFixes(const std::string& flag, const std::string& text, Fixes* fixes) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part.find('=') == absl::string_view::npos && !parts.empty()) {
      absl::StrAppend(&parts.back().second, ",", part);
    } else {
      parts.push_back(absl::StrSplit(part, absl::MaxSplits('=', 1)));
    }
  }
  for (const auto& [name, value] : parts) RETURN_IF_ERROR(AddFix(flag, name, value, fixes));
  return absl::OkStatus();
}

std::vector<std::string> ListFixes(const Fixes& fixes) {
  std::vector<std::string> list;
  for (const std::string& name : FixNames()) {
    const Row* row = FindRow(RecipeRows(), name);
    const auto size = fixes.sizes.find(name);
    if (size != fixes.sizes.end()) list.push_back(absl::StrCat(name, "=", size->second));
    if (row == nullptr || !HasField(*row, fixes.recipe)) continue;
    list.push_back(name + "=" + FieldText(*row, fixes.recipe));
  }
  return list;
}

std::string ToString(const Fixes& fixes) { return absl::StrJoin(ListFixes(fixes), ","); }

Fixes WithoutFix(Fixes fixes, const std::string& name) {
  fixes.sizes.erase(name);
  if (const Row* row = FindRow(RecipeRows(), name)) ClearField(*row, &fixes.recipe);
  return fixes;
}

}  // namespace oneflow
