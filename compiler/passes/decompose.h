// Replaces composite ops by primitive ones, so that the later passes see each sum and each maximum
// over a dimension that may be split.
//
//   softmax_cross_entropy "loss"  ->  row_max "loss.max", row_sum_exp "loss.sum", pick "loss.pick",
//                                     mean_nll "loss"; where it ignores negative labels,
//                                     count_labels "loss.count", too
//   causal_attention "attn"       ->  split_qkv "attn.split", attention "attn"
//   linear "fc" with a bias whose contracted dimension is constrained to a split (row-parallel)
//                                 ->  linear "fc.product", add_bias "fc"
//
// The tensors of the composite ops keep their names and ids; the new ops bear their scope.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires inferred shapes. `micro_batches`: M of a step. The loss is the mean over all rows of a
// step, so the losses of its micro-batches add up. A loss that ignores negative labels is a sum
// until DivideByCount.
absl::Status Decompose(Graph* graph, int64_t micro_batches);

}  // namespace oneflow
