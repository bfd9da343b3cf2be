// The roles of dimensions in the `linear` ops, of a logical op and on one device. Internal to
// op/.
//
//   x[lead..., c...]   y[lead..., o...]   w[c..., o...], or w[o..., c...] when transposed
#pragma once

#include "oneflow_core/op/op_util.h"

namespace oneflow {

struct LinearDims {
  int lead, c, o;  // how many of each
  bool transposed;

  int w_c() const { return transposed ? o : 0; }  // first c dimension of w
  int w_o() const { return transposed ? 0 : c; }  // first o dimension of w
};

// The attributes of every form of `linear` and of linear_grad_input.
inline std::vector<AttrDef> LinearAttrs() {
  return {{"contract", AttrType::kInt},
          {"transpose_w", AttrType::kBool},
          {"then", AttrType::kString},
          {"wide", AttrType::kBool}};
}

// The elements over the c and over the o dimensions of a weight.
struct WeightSides {
  int64_t c, o;
};

inline WeightSides FindWeightSides(const LocalOp& op, const Dims& w) {
  const int c = static_cast<int>(AttrInt(op, "contract", 1));
  const int o = static_cast<int>(w.size()) - c;
  if (AttrBool(op, "transpose_w")) return {CountElements(w, o), CountElements(w, 0, o)};
  return {CountElements(w, 0, c), CountElements(w, c)};
}

}  // namespace oneflow
