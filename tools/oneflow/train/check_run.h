// Checks of a run before anything of it begins.
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Refuses choices that cannot be obeyed on this host, alone or with so many processes: its folders,
// its network devices. Warns of one that acts on nothing. Opens no file.
absl::Status CheckRunHere(const proto::Run& run, int processes);

// Refuses host_link for a plan of GPUs, whose links are as they are; warns where it acts on
// nothing.
absl::Status CheckHostLink(const proto::Run& run, const proto::Plan& plan);

}  // namespace oneflow
