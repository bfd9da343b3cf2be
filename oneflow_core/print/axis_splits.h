// Says in words what each axis of a plan's mesh splits: read from the registers and exchanges of
// program "train", not from the axis's name.
//
//   axis pipe=4: blocks, 20 a stage
//   axis data=2: batch, states
//   axis context=2: positions, states
//   axis tensor=8: products by groups, inner, vocab
//   axis tensor=8: products by vocab; gathers the weights of 5 of 5 products a block
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "proto/plan.pb.h"

namespace oneflow {

struct AxisSplits {
  std::string axis;  // "tensor"
  int devices = 1;
  // The dimensions of inputs, by name (of "seq": positions); "blocks, 20 a stage" of the axis of
  // stages; "products by inner" with the dimensions of weights with whose parts products compute.
  // Of an axis that splits inputs also "states" or "weights": what is split at rest.
  std::vector<std::string> splits;
  // Products of a block with a weight, and those whose weight such an axis as tensor, which splits
  // no inputs, splits at rest and gathers.
  int products = 0, gathers = 0;
};

// Of each axis of two devices or more; empty without a program "train".
std::vector<AxisSplits> FindAxisSplits(const proto::Plan& plan);

// A line for each.
std::string AxisSplitsText(const std::vector<AxisSplits>& axes);

// [{"axis", "devices", "splits", "products", "gathers"}]
nlohmann::ordered_json AxisSplitsJson(const std::vector<AxisSplits>& axes);

}  // namespace oneflow
