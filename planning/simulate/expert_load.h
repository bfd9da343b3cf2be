// The load of experts, for the simulator. A plan does not say how many tokens choose an expert:
// that is data. It says for how many slots its products of experts have their time (attribute
// `taken`, see oneflow_core/op/expert_linear.cc), which is even routing: every expert has as many
// tokens.
//
//   if (HasExperts(plan)) ScaleExperts(1.3, &plan);  // the busiest device has 1.3 times that
#pragma once

#include "proto/plan.pb.h"

namespace oneflow {

bool HasExperts(const proto::Plan& plan);
// Multiplies the work of products of experts, on all devices: the others wait for the busiest.
void ScaleExperts(double imbalance, proto::Plan* plan);

}  // namespace oneflow
