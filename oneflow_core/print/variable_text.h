// Describes for people where each variable is and when it is exchanged
// (oneflow_core/net/variable_layouts.h).
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/net/variable_layouts.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Variables whose names differ in numbers only and that are split and exchanged alike.
struct VariableGroup {
  std::string name;  // "h.*.mlp.fc.weight"; of one variable its own
  std::vector<const VariableLayouts*> variables;
  // The axes that split it: "data+tensor", "bf16 data", "f32 data, bf16 data"; else "replicated".
  // A gradient that none splits is "full": until it is reduced each device has a sum of its own.
  std::string states, gradient, weight;
  // "once over data.0, 2 a micro-batch over data.1 (2 ahead)", "each micro-batch over data"; else
  // "-".
  std::string gathered, reduced;
  // What rests in the host's memory, and when it is copied into the device's: "states in the
  // update, weights 2 a micro-batch", "states and update, weights once a step"; else "-".
  std::string host;
};

// In the order of the first of each. They point into `layouts`.
std::vector<VariableGroup> GroupVariables(const proto::Plan& plan,
                                          const std::vector<VariableLayouts>& layouts);

// A line for each group; "" without a program "train", or on one device whose variables all rest in
// its memory. The column `host` is there where one does not.
//
//   variables of program train, and the axes that split them:
//                          states  gradient  weight     gathered        reduced
//       h.*.mlp.fc.weight  data    full      bf16 data  once over data  once over data; 4 times
std::string VariableTable(const proto::Plan& plan);

// How the plan's bits compare with those of the plan in which data axes split nothing, gradients
// are reduced once a step and nothing rests in the host's memory; "" if it is that plan.
//
//   "equal to those of the plan without --shard and --offload"
std::string BitsText(const proto::Plan& plan);

}  // namespace oneflow
