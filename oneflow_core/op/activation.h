// The activations of `gated`: a table that ops, passes and costs read.
//
//   FindActivation("silu")->fused   // true: linear then "gated" computes it
//
// A row says nothing about kernels. Those of each kind of device have a table of the same names.
#pragma once

#include <span>
#include <string_view>

namespace oneflow {

struct Activation {
  std::string_view name;             // of the attribute `activation`
  double flops = 0, grad_flops = 0;  // of gated and of gated_grad, for an element
  bool fused = true;                 // the kernels of products apply it (ProductSpec::Then)
};

std::span<const Activation> Activations();
// nullptr if there is none of that name.
const Activation* FindActivation(std::string_view name);

}  // namespace oneflow
