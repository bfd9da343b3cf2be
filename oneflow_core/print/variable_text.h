// Describes the layouts of each variable and the times of its exchanges
// (oneflow_core/net/variable_layouts.h).
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "oneflow_core/net/variable_layouts.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Variables that are split and exchanged alike, and whose names only differ in numbers.
struct VariableGroup {
  std::string name;  // "h.*.mlp.fc.weight"; of one variable its own
  std::vector<const VariableLayouts*> variables;
  // The axes that split it: "data+tensor", "bf16 data", "f32 data, bf16 data"; else "replicated". A
  // gradient that no axis splits is "full": until it is reduced each device has a sum of its own.
  std::string states, gradient, weight;
  // Frequency and axes of exchanges: "once over data.0, 2 a micro-batch over data.1 (2 ahead)",
  // "each micro-batch over data"; else "-".
  std::string gathered, reduced;
  // The tensors that rest in the host's memory, and the times of their copies into the device's:
  // "states in the update, weights 2 a micro-batch", "states and update, weights once a step"; else
  // "-".
  std::string host;
};

// Groups variables, in the order of the first of each group. The groups point into `layouts`.
std::vector<VariableGroup> GroupVariables(const proto::Plan& plan,
                                          const std::vector<VariableLayouts>& layouts);

// Prints a line for each group; "" without a program "train", or on one device whose variables all
// rest in its memory. There is a column `host` if one does not.
//
//   variables of program train, and the axes that split them:
//                          states  gradient  weight     gathered        reduced
//       h.*.mlp.fc.weight  data    full      bf16 data  once over data  once over data; 4 times
std::string VariableTable(const proto::Plan& plan);

// The same for programs:
//
//   {"states": [{"dtype": "f32", "split": {"data": 0}}],   // axis: dimension, the outermost first
//    "gradients": [..], "weights": [..],
//    "gathered": {"once": ["data.0"], "each_micro_batch": ["data.1"], "a_micro_batch": 2,
//                 "ahead": 2},
//    "reduced": {"once": ["data.0"], "each_micro_batch": ["data.1"]}, "host": {..}}
nlohmann::ordered_json VariableJson(const proto::Plan& plan, const VariableLayouts& v);

// Compares the plan's bits with those of a basic plan; "" if it is that plan. In the basic plan
// data axes split nothing, gradients are reduced once a step and nothing rests in the host's
// memory.
//
//   "equal to those of the plan without --shard and --offload"
std::string BitsText(const proto::Plan& plan);

}  // namespace oneflow
