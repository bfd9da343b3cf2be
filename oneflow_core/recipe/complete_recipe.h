// Defaults of a recipe, and what its fields exclude of each other.
//
//   const proto::Recipe plain = WithDefaults(recipe);  // batch 8, schedule "1f1b", ...
//   RETURN_IF_ERROR(CheckRecipe(plain));
#pragma once

#include "absl/status/status.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// The recipe, in which each absent field that has a plain default has it. What stays absent is what
// planning chooses (mesh, experts, prefetch, stage_layers, warm_ups, steps_a_round), what `order`
// says in its place, and a limit that there is not (host_memory). A pure function.
proto::Recipe WithDefaults(proto::Recipe recipe);

// An input error, which begins with the flag, where a field is out of its range or not for the
// values of others. Requires the defaults, but where `order` is given.
absl::Status CheckRecipe(const proto::Recipe& recipe);

}  // namespace oneflow
