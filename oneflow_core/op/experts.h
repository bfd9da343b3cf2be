// Shapes and samples that the definitions of a mixture of experts share. Internal to op/.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/op/op_util.h"
#include "oneflow_core/op/route_dims.h"

namespace oneflow {

// Finds the dimensions of an op whose tokens are `tokens`[b, t, ...] with `choices` choices each;
// checks attributes.
absl::StatusOr<RouteDims> FindRouteDims(const OpView& v, const Shape& tokens, int64_t experts,
                                        int64_t choices);

// Checks that `ids` and `slots` are i32[b, t, k] of `tokens`[b, t, ...].
absl::Status ExpectChoices(const Tensor& ids, const Tensor& slots, const Tensor& tokens);

// The shape of slots, [G, b, r, C] of tokens[b, t, ...], r the runs of a sequence.
Shape SlotShape(const RouteDims& d, const Shape& tokens);

// Runs of a sequence of t positions: the most devices that may split it; their number divides it,
// because only entire runs can be routed.
int64_t CountRuns(const Op& op, int64_t positions);

// Attributes `groups`, `run`, `capacity`, and those of passes: `parts`, into which devices split
// the experts, and `imbalance`, a capacity for a price (annotate_queues.h).
std::vector<AttrDef> RouteAttrs();

// Routed tokens for tests: the results of `route` for some logits, with attributes that fit. Groups
// can be split over two and three devices. The last has a capacity that drops some choices.
struct RouteSample {
  RouteDims dims;
  int64_t b = 0, t = 0;
  AttrMap attrs;  // experts, groups, run, capacity
  SampleTensor ids, slots, offsets;

  SampleTensor Tokens(int64_t width) const { return {{b, t, width}}; }
  SampleTensor Slots(int64_t width) const {
    return {{dims.groups, b, t / dims.run, dims.slots, width}};
  }
};
std::vector<RouteSample> RouteSamples(const SampleSizes& s);

}  // namespace oneflow
