// What a gradient is the gradient of: differentiate says it, infer_sbp lays it out alike.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// That `grad` is the gradient of what `reader` reads at `input`; reader -1: of `of` as it was made,
// over all of its readers. infer_sbp lays gradients out as the tensors they belong to.
struct GradientMirror {
  TensorId of = -1;
  OpId reader = -1;
  int input = 0;
  TensorId grad = -1;
};

}  // namespace oneflow
