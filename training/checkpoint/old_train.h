// Reads how a checkpoint of an older version was trained.
#pragma once

#include "proto/recipe.pb.h"
#include "proto/train.pb.h"

namespace oneflow {

// All that the old form says, as a recipe. What it does not know is absent.
proto::Trained FromOldTrain(const proto::Train& train);

}  // namespace oneflow
