#include "oneflow_core/op/activation.h"

#include <algorithm>

#include "oneflow_core/op/op_util.h"

namespace oneflow {
namespace {

// A product with up is one operation more than the activation; the gradients are its value and
// slope, and three products.
constexpr Activation kActivations[] = {
    {"silu", 5 + 1, 9 + 3},
    {"gelu", kGeluFlops + 1, kGeluGradFlops + 3},
    // Of mixtures, whose products are not fused with it.
    {"clamped_silu", 9 + 1, 16 + 3, /*fused=*/false},
};

}  // namespace

std::span<const Activation> Activations() { return kActivations; }

const Activation* FindActivation(std::string_view name) {
  const auto* found = std::ranges::find(kActivations, name, &Activation::name);
  return found == std::end(kActivations) ? nullptr : found;
}

}  // namespace oneflow
