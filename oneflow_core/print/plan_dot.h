// A program as a Graphviz picture: a box an actor, a cluster a stage and within it a cluster a
// layer, an edge a register with its slots.
//
//   ASSIGN_OR_RETURN(const std::string dot, PlanDot(plan, "train", /*full=*/false));
//
// Consecutive equal layers are one cluster, "layers 0-11 x 12": it shows the boxes of one layer,
// and edges from a layer to the next are dashed. Parallel edges are drawn once. Edges that lead
// back, such as that of an updated weight, do not order the boxes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Draws the program of that name; an input error lists the plan's programs if there is none.
// `full`: every layer is drawn.
absl::StatusOr<std::string> PlanDot(const proto::Plan& plan, std::string_view program, bool full);

}  // namespace oneflow
