// The one printer of graphs. Deterministic: two graphs have the same text exactly if they are the
// same to a reader. Golden tests compare the text.
//
//   graph mlp mesh=data=2,tensor=2 ops=3 boxing=1 loss=loss
//     fc2:(S(0),P)    f32[128,128]         = linear x:(S(0),S(1)) w2:(B,S(0))  contract=1
//     y.box:(S(0),B)  f32[128,128]         = all_reduce fc2:(S(0),P)           axis=tensor
//     ln:B :1:B :2:B  f32[64,8] f32[64]x2  = layer_norm y.box:B gamma:B
//     ...
//
// One line an op: its outputs, their types, "=", kind and inputs. Everything that is not the
// default follows: stage (in graphs that have several), chunk, block, phase (P prepare, B backward,
// U update), constraints not yet applied, attributes. An op's first output has the op's name; the
// second is `:1`, named "ln:1". Equal types in a row are written once, with their number. Once
// infer_sbp has run, SBP follows each tensor, one entry for each axis but the stage's. Lines of
// more than kTextColumns (oneflow_core/base/wrap.h) go on in lines that begin with six blanks.
#pragma once

#include <functional>
#include <string>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct GraphTextOptions {
  bool why = false;  // end each op with the reason that a pass gave for it: "# fc2 is ..."
  // Prints only the ops for which it holds, each after its index in the graph; empty: all.
  std::function<bool(const Op&)> only;
};

std::string ToText(const Graph& graph, const GraphTextOptions& options = {});

// The line of one op, not wrapped, its cells not aligned.
std::string OpText(const Graph& graph, const Op& op);

// One attribute's value as the printer writes it: 1, 0.02, true, normal, [1,2].
std::string ToString(const Attr& attr);

}  // namespace oneflow
