// Finds the origin of the contents of a register.
#pragma once

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// The actor that computes the contents of a register, before any boxing moved them, and the
// register that it writes. -1: none, or not known.
struct Origin {
  int actor = -1, reg = -1;
};
Origin FindOrigin(const PlanNet& net, int reg);

}  // namespace oneflow
