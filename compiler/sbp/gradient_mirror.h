// Names the tensor that a gradient belongs to: differentiate records it, infer_sbp gives both one
// layout.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// `grad` is the gradient of what `reader` reads at `input`; with reader -1, of the tensor `of` over
// all of its readers.
struct GradientMirror {
  TensorId of = -1;
  OpId reader = -1;
  int input = 0;
  TensorId grad = -1;
};

}  // namespace oneflow
