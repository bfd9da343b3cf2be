// Flags of `oneflow train` that are checked before a file is opened. `oneflow submit` checks the
// numbers, too: a job must not wait in a queue for a mistake.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/trainer/resume.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/verb.h"

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

// Refuses a --job_dir that is no folder that can be written to: the outcome goes there at the end,
// and a run must not find out then.
absl::Status CheckJobDir();

// --resume, which needs --checkpoint_dir.
absl::StatusOr<Resume> ResumeFromFlags();

}  // namespace oneflow
