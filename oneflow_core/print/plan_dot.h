// A program as a Graphviz picture: a box an actor, a cluster a stage, an edge a register with its
// slots.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Of the program of that name; an input error that lists the plan's programs if there is none.
absl::StatusOr<std::string> PlanDot(const proto::Plan& plan, std::string_view program);

}  // namespace oneflow
