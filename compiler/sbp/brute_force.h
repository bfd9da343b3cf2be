// The reference for searches of a ChoiceNetwork: exhaustive enumeration. For tests.
#pragma once

#include <algorithm>
#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// Returns the least cost of all assignments. Their number is the product of the domain sizes.
inline Cost BruteForce(const ChoiceNetwork& network) {
  std::vector<int> assignment(network.variables(), 0);
  Cost least = network.Evaluate(assignment);
  while (true) {
    int v = network.variables() - 1;
    while (v >= 0 && ++assignment[v] == network.domain_size(v)) assignment[v--] = 0;
    if (v < 0) return least;
    least = std::min(least, network.Evaluate(assignment));
  }
}

}  // namespace oneflow
