// Part of verify_types: checks the exchanges of a program. Groups are groups of the mesh. An
// exchange names a group of its stage; a send and its receive name each other. Exchanges are on
// streams of devices. The order of issue of each stage contains every exchange as often as it
// fires.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/verify/verify_boxing.h"

namespace oneflow {

absl::Status VerifyGroups(const proto::Plan& plan, const Mesh& mesh);

// Checks one exchange. Requires that its registers and its group exist, and that their layouts are
// well formed.
absl::Status VerifyExchange(const PlanNet& net, const proto::Actor& actor, const std::string& where,
                            BoxingCheck* boxing);

// Checks all exchanges of a program. Requires that segments and streams are of one stage each.
absl::Status VerifyIssue(const PlanNet& net);

}  // namespace oneflow
