// From flags, and the file of --recipe, to the messages that they say (proto/recipe.proto).
#pragma once

#include <google/protobuf/message.h>

#include <span>

#include "absl/status/statusor.h"
#include "oneflow_core/recipe/row.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// Sets the fields whose flags are given.
absl::Status SetGiven(std::span<const Row> rows, const Arguments& args,
                      google::protobuf::Message* message);

// Reads the file of --recipe, if it is given: what it says is given from then on, as if its fields
// were flags; passed over are fields that the verb has no flag for, and those of a training's run
// that mean another thing there. A flag that says otherwise counts, and what depends on the file's
// value is dropped (drop_dependents.h): a line on stderr says both. A search passes over what it
// chooses, and says so. Beside --plan the file's run counts alone. Errors begin "file:line:".
absl::Status TakeRecipe(const Verb& verb, Arguments* args);

// The recipe as said: fields that are not said are absent.
absl::StatusOr<proto::Recipe> RecipeSaid(const Arguments& args);

// Steps that share an update are one step of all their sequences and micro-batches: those of
// --sync_every steps.
absl::Status JoinSteps(const Arguments& args, proto::Recipe* recipe);

// Both.
absl::StatusOr<proto::Recipe> RecipeFromFlags(const Arguments& args);

// The run as said, its optimizer among it.
absl::StatusOr<proto::Run> RunFromFlags(const Arguments& args);

// `optimizer`, in which each given flag counts; what neither says has its default.
absl::StatusOr<proto::Optimizer> OptimizerFromFlags(const Arguments& args,
                                                    proto::Optimizer optimizer);

// The threads of a run: all cores where it says none.
int CountThreads(const proto::Run& run);

// The steps of the run where it says them, else two: the second is one among others.
int64_t StepsToSimulate(const proto::Run& run);

}  // namespace oneflow
