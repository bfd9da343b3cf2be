// Reads how a checkpoint of an older version was trained.
#pragma once

#include "proto/recipe.pb.h"
#include "proto/train.pb.h"

namespace oneflow {

// Returns all that the old form says, as a recipe. Fields that it does not know are absent.
proto::Trained FromOldTrain(const proto::Train& train);

}  // namespace oneflow
