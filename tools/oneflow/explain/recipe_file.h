// The complete recipe that made a plan, as a file of --recipe.
#pragma once

#include <string>

#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Compiled again it makes the plan, if `model` is the plan's and `cluster` names its cluster.
proto::RecipeFile MakeRecipeFile(const proto::Plan& plan, const proto::Model& model,
                                 const std::string& cluster);

// The file as text, below a line of comment.
std::string RecipeFileText(const std::string& comment, const proto::RecipeFile& file);

}  // namespace oneflow
