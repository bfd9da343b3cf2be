// The cost of a policy of recompute, without a short plan of it.
//
//   const ShortCosts full = AddPolicy(plain, least, least_full);
#pragma once

#include "planning/search/short_plan.h"

namespace oneflow {

// `plain`: of a group, with the policy none. `least`, `least_policy`: of LeastSpec, with none and
// with the policy. A block takes as much more with the policy in the group as it does there: it
// recomputes the same, and saves the same activations. Exchanges that recompute hides, and those
// that it repeats over data axes, are not in it; a short plan of the policy shows them.
ShortCosts AddPolicy(const ShortCosts& plain, const ShortCosts& least,
                     const ShortCosts& least_policy);

}  // namespace oneflow
