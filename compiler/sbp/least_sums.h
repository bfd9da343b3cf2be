// The inner loop of elimination: a sum of tables, minimised over one variable. Part of
// choice_network.
#pragma once

#include <vector>

#include "compiler/sbp/choice_network.h"

namespace oneflow {

// A table over some of the variables that a sum is over.
struct WalkedTable {
  const Cost* costs = nullptr;
  // How far the next value of each variable is, the minimised one first; 0: not a variable of the
  // table. Along the others a later variable is nearer, as in a row-major table.
  std::vector<int> strides;
};

// By the values of the other variables, row-major: the least sum of all tables over the `values`
// values of the minimised one, at most kForbidden.
//
// The minimised variable changes slowest, because all tables have it. Few tables have the last
// variables: these are one block, over which each such table is written out, so that the innermost
// loop adds rows of contiguous costs to the sum of the other tables.
std::vector<Cost> LeastSums(int values, const std::vector<int>& sizes,
                            std::vector<WalkedTable> tables);

}  // namespace oneflow
