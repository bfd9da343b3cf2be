// The three ops that read rows of logits for their statistics, as `decompose` makes them of a loss.
// For the passes that fuse them.
#pragma once

#include <algorithm>
#include <vector>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The ops row_max, row_sum_exp and pick of the same rows.
struct RowStats {
  OpId max = -1, sum = -1, pick = -1;
  OpId last() const { return std::max({max, sum, pick}); }
};

// Finds them by row_max: those that are of one chunk, and all of whose readers come after the last
// of the three.
std::vector<RowStats> FindRowStats(const Graph& graph, const std::vector<std::vector<Use>>& uses);

}  // namespace oneflow
