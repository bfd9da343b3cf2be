// Flags of `oneflow train` that are checked before a file is opened. `oneflow submit` checks the
// numbers, too: a job must not wait in a queue for a mistake.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/oneflow/resume.h"
#include "tools/oneflow/verb.h"

namespace oneflow {

// Refuses numbers that are out of range or do not fit together. `has_checkpoint_dir`: false where
// checkpoints have no folder to go to.
absl::Status CheckTrainNumbers(const Arguments& args, bool has_checkpoint_dir);

// Refuses a --job_dir that is no folder that can be written to: the outcome goes there at the end,
// and a run must not find out then.
absl::Status CheckJobDir();

// --resume, which needs --checkpoint_dir.
absl::StatusOr<Resume> ResumeFromFlags();

}  // namespace oneflow
