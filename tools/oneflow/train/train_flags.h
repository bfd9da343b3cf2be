// Flags of `oneflow train` that are checked before a file is opened. `oneflow submit` checks the
// numbers, too: a job must not wait in a queue for a mistake.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/cli/verb.h"
#include "training/trainer/resume.h"

namespace oneflow {

// Refuses numbers that are out of range or do not fit together. `has_checkpoint_dir`: false where
// checkpoints have no folder to go to.
absl::Status CheckTrainNumbers(const Arguments& args, bool has_checkpoint_dir);

// --host_link, "2GB:2GB": bytes a second to the host and from it; as fast as memory without the
// flag.
absl::StatusOr<HostLinkSpeed> HostLinkFromFlags();
// Refuses --host_link for a plan of GPUs, whose links are as they are; warns where it acts on
// nothing.
absl::Status CheckHostLink(const proto::Plan& plan);

// Refuses flags of `oneflow train` that do not go together, or not with the number of processes;
// warns where one acts on nothing. Opens no file.
absl::Status CheckTrainFlags(const Arguments& args, int processes);

// --resume, which needs --checkpoint_dir.
absl::StatusOr<Resume> ResumeFromFlags();

}  // namespace oneflow
