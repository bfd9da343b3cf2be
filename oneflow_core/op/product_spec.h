// ProductSpec: the matrix product that an op is, on one device. The cost model, the bytes of
// workspaces and the kernels of all devices take it from the op's row (OpDef::product).
//
//   const ProductSpec p = FindOpDef("linear")->product({attrs, {{2, 4, 6}, {6, 8}}, {{2, 4, 8}}});
//   // p.m == 8, p.n == 8, p.k == 6
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// An op on one device: its attributes, and the sizes of its pieces of inputs (those that it updates
// in place first) and outputs. `dtype` is that of its first input and of its kernel's workspace.
struct LocalOp {
  const AttrMap& attrs;
  std::vector<Dims> in, out;
  DType dtype = DType::kF32;
};

// `batch` times out[m, n] (+)= a[m, k] * b[k, n], all dense and contiguous in memory. a is input
// `a_input`, stored [k, m] when transpose_a. b is input `b_input`, stored [n, k] when transpose_b.
// `bias_input` >= 0: its n elements are added to each row. `then` is applied to the result.
struct ProductSpec {
  enum class Then : uint8_t {
    kNothing,
    kGelu,       // output 1 = gelu(out)
    kGeluGrad,   // out = gelu_grad(out, input 2)
    kAdd,        // out = input 2 + out; not for a bf16 out
    kGated,      // output 1 = gated(input 2, out)
    kGatedGrad,  // out, output 1 = gated_grad(out, input 2, input 3)
  };
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int a_input = 0, b_input = 1, bias_input = -1;
  bool transpose_a = false, transpose_b = false;
  Then then = Then::kNothing;
  bool silu = false;  // the activation of the gated ones; else gelu

  // True if it multiplies nothing.
  bool Empty() const { return batch == 0 || m == 0 || n == 0 || k == 0; }
};

}  // namespace oneflow
