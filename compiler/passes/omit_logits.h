// Computes logits in pieces: fuses a loss and the head before it, which together are
//
//   linear "logits", row_max "loss.max", row_sum_exp "loss.sum", pick "loss.pick"
//     ->  linear_row_stats "logits.stats"
//
// so that no tensor holds the logits, nor their gradient. The kernels make one piece of their rows
// at a time in a workspace, in the backward once more (oneflow_core/op/linear_row_stats.cc). The
// tensors of the last three keep their names.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow {

struct OmitLogitsOptions {
  // The most pieces of the rows of a device; 0: the number that UsualLogitRows gives. In that case
  // logits stay a tensor if all rows are one piece, or if an axis splits the vocabulary. They then
  // take less memory than the full head and its gradient, which pieces need.
  int64_t pieces = 0;
  // True if a graph whose logits cannot be omitted is an input error; else it stays as it is.
  bool needed = true;
  DType dtype = DType::kF32;  // of logits
};

// Returns a note of the result, or of the reason against it. Requires decomposed losses; the logits
// must not be an output of the graph.
absl::StatusOr<std::string> OmitLogits(Graph* graph, const OmitLogitsOptions& options);

}  // namespace oneflow
