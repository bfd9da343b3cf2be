// The layouts of a variable and the times of its exchanges (oneflow_core/net/variable_layouts.h),
// for programs:
//
//   {"states": [{"dtype": "f32", "split": {"data": 0}}],   // axis: dimension, the outermost first
//    "gradients": [..], "weights": [..],
//    "gathered": {"once": ["data.0"], "each_micro_batch": ["data.1"], "a_micro_batch": 2,
//                 "ahead": 2},
//    "reduced": {"once": ["data.0"], "each_micro_batch": ["data.1"]}}
#pragma once

#include "nlohmann/json.hpp"
#include "oneflow_core/net/variable_layouts.h"
#include "proto/plan.pb.h"

namespace oneflow {

nlohmann::ordered_json VariableJson(const proto::Plan& plan, const VariableLayouts& v);

}  // namespace oneflow
