// Which dimension is which in the `linear` family. Internal to op/.
//
//   x[lead..., c...]   y[lead..., o...]   w[c..., o...], or w[o..., c...] when transposed
#pragma once

namespace oneflow {

struct LinearDims {
  int lead, c, o;  // how many of each
  bool transposed;

  int w_c() const { return transposed ? o : 0; }  // first c dimension of w
  int w_o() const { return transposed ? 0 : c; }  // first o dimension of w
};

}  // namespace oneflow
