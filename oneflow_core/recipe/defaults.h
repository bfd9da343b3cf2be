// The value of a field that a recipe does not say.
#pragma once

#include "proto/recipe.pb.h"

namespace oneflow {

// Uses of weights that are gathered ahead where memory allows.
inline constexpr int kUsualPrefetch = 2;

// The recipe with a value in each field whose default is one value. Absent stay: messages, for
// which absent is a value; overlap, chunks and steps_a_round, which depend on the cluster or the
// schedule (compiler/compile.h: Completed).
proto::Recipe WithDefaults(proto::Recipe recipe);

}  // namespace oneflow
