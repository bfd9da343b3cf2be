// The command line and the recipe that make a plan once more.
//
//   ASSIGN_OR_RETURN(const PlanOrigin origin, FindPlanOrigin(args, plan));
//   origin.command  ->  "oneflow compile --graph=gpt.textproto --mesh=pipe=2 --batch=8"
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

struct PlanOrigin {
  std::string command, recipe;  // recipe: a file of --recipe
};

// The model that --graph and the flags beside it say, as a recipe says it. Requires an exact model,
// where --graph names one.
absl::StatusOr<proto::Model> ModelFromFlags(const Arguments& args);

// Of a plan that was compiled for a verb, by the flags of it that `compile` takes, too; of one that
// was read from --plan, by its graph and cluster, and the choices of its recipe that are not the
// defaults.
absl::StatusOr<PlanOrigin> FindPlanOrigin(const Arguments& args, const proto::Plan& plan);

}  // namespace oneflow
