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

struct OmitLogitsOptions {
  // Pieces of the rows of a device, at most; 0: as UsualLogitRows has it, and logits stay a tensor
  // where all rows are one piece, or where an axis splits the vocabulary: they take less memory
  // then than all of the head and its gradient, which pieces need.
  int64_t pieces = 0;
  // True if a graph whose logits cannot be omitted is an input error; else it stays as it is.
  bool needed = true;
  DType dtype = DType::kF32;  // of logits
};

// Returns a note of what was done, or why nothing was. Requires decomposed losses; of the graph's
// outputs the logits are none.
absl::StatusOr<std::string> OmitLogits(Graph* graph, const OmitLogitsOptions& options);

}  // namespace oneflow
