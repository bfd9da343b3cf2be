// Logits in pieces: of a loss and the head before it, which together are
//
//   linear "logits", row_max "loss.max", row_sum_exp "loss.sum", pick "loss.pick"
//     ->  linear_row_stats "logits.stats"
//
// so that no tensor holds the logits, nor their gradient: the kernels make a piece of their rows at
// a time in a workspace, in the backward once more (oneflow_core/op/linear_row_stats.cc). The
// tensors of the last three keep their names.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow {

struct CutLogitsOptions {
  // Pieces of the rows of a device, at most; 0: as UsualLogitRows has it, and logits stay whole
  // where all rows are one piece, or where an axis splits the vocabulary: then whole logits take
  // less memory than the whole head and its gradient, which cut ones need.
  int64_t pieces = 0;
  // True if a graph whose logits cannot be cut is an input error; else it stays as it is.
  bool needed = true;
  DType dtype = DType::kF32;  // of logits
};

// Returns a note of what was done, or why nothing was. Requires decomposed losses; of the graph's
// outputs the logits are none.
absl::StatusOr<std::string> CutLogits(Graph* graph, const CutLogitsOptions& options);

}  // namespace oneflow
