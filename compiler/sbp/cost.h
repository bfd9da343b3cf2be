// The costs of a ChoiceNetwork.
#pragma once

#include <cstdint>

namespace oneflow {

// A cost: an integer, so that a sum does not depend on its order.
using Cost = int64_t;
// The cost of a forbidden combination; absorbing under AddCosts. All other sums must stay below it.
inline constexpr Cost kForbidden = int64_t{1} << 60;
inline Cost AddCosts(Cost a, Cost b) { return a + b < kForbidden ? a + b : kForbidden; }

}  // namespace oneflow
