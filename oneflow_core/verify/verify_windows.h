// Proves that an exchange has the window that it needs for members without common memory.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

// Checks the windows of an actor: a member receives data in its outputs and in the window that the
// plan gives it. Requires an exchange that passed VerifyProgramTypes. Errors begin with `where`.
absl::Status VerifyWindow(const PlanNet& net, const Mesh& mesh, const proto::Actor& actor,
                          const std::string& where);

}  // namespace oneflow
