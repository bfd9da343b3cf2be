// The one printer of graphs. Deterministic: two graphs print alike exactly if they are the same to
// a reader. Golden tests compare it whole.
//
//   graph mlp mesh=data=2,tensor=2 ops=3 boxing=1 loss=loss
//     fc2    linear      x:(S(0),S(1)) w2:(B,S(0)) -> y:(S(0),P)     f32[128,128]  contract=1
//     y.box  all_reduce  y:(S(0),P)                -> y.box:(S(0),B) f32[128,128]
//     ...
//
// One line an op: name, kind, inputs, outputs, types of the outputs, then what is not the default:
// stage (in graphs that have several), phase (B backward, U update), constraints not yet applied,
// attributes. SBP stands after each tensor once infer_sbp has run, one entry for each axis but the
// stage's.
#pragma once

#include <string>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct GraphTextOptions {
  bool why = false;  // end each line with the reason a pass gave for the op
};

std::string ToText(const Graph& graph, const GraphTextOptions& options = {});

// One attribute's value as the printer writes it: 1, 0.02, true, normal, [1,2].
std::string ToString(const Attr& attr);

}  // namespace oneflow
