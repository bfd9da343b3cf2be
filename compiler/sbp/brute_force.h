// The reference that searches for the cheapest choice are held against. For tests.
#pragma once

#include <algorithm>
#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// The least cost over all labellings, one by one: as many as the product of the numbers of labels.
inline Cost BruteForce(const ChoiceNetwork& network) {
  std::vector<int> label(network.variables(), 0);
  Cost least = network.CostOf(label);
  while (true) {
    int v = network.variables() - 1;
    while (v >= 0 && ++label[v] == network.labels(v)) label[v--] = 0;
    if (v < 0) return least;
    least = std::min(least, network.CostOf(label));
  }
}

}  // namespace oneflow
