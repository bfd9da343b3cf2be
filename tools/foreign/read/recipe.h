// The recipe that a configuration of another system is here.
//
//   const ForeignRecipe recipe = MakeForeignRecipe(facts);
//   FlagsText(RecipeRows(), recipe.recipe)   // "--mesh=pipe=4,data=8,tensor=2 --batch=512 ..."
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"
#include "tools/foreign/read/facts.h"

namespace oneflow::foreign {

// A field of a recipe, with the settings that it comes from.
struct Choice {
  std::string field, text;            // "schedule", "interleaved"
  std::vector<std::string> settings;  // keys: "num_layers_per_virtual_pipeline_stage"
};

struct ForeignRecipe {
  proto::Recipe recipe;
  proto::Optimizer optimizer;
  std::vector<Choice> choices;     // what the recipe is made of, in the order of the help
  std::vector<std::string> notes;  // where it is only near
};

// Requires facts without broken rules, and with degrees and batch. An input error: a choice that
// the recipe cannot have, as no sum of sequences a step.
absl::StatusOr<ForeignRecipe> MakeForeignRecipe(const Facts& facts);

}  // namespace oneflow::foreign
