#include "oneflow_core/recipe/complete_recipe.h"

#include <glog/logging.h>

#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {
namespace {

// Fields that a file of --order says in their place.
bool IsOrdered(const proto::Recipe& recipe, std::string_view name) {
  return recipe.has_order() && (name == "schedule" || name == "chunks" ||
                                name == "extra_in_flight" || name == "staleness");
}

}  // namespace

proto::Recipe WithDefaults(proto::Recipe recipe) {
  for (const Row& row : RecipeRows()) {
    if (HasField(row, recipe) || IsOrdered(recipe, row.name)) continue;
    const std::string text =
        row.find_default != nullptr ? row.find_default(recipe) : std::string(row.default_text);
    if (text.empty()) continue;
    const absl::Status set = SetField(row, text, &recipe);
    CHECK(set.ok()) << set;
  }
  return recipe;
}

absl::Status CheckRecipe(const proto::Recipe& recipe) {
  RETURN_IF_ERROR(CheckFields(RecipeRows(), recipe, [](const Row&) { return "--"; }));
  for (const Row& row : RecipeRows()) {
    if (row.excludes != nullptr && HasField(row, recipe)) RETURN_IF_ERROR(row.excludes(recipe));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
