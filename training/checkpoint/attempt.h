// Folders of attempts to write checkpoints. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {

std::string AttemptFolder(const std::string& dir, int64_t attempt);  // DIR/attempt-3.tmp
std::string StepFolder(const std::string& dir, int64_t step);        // DIR/step-00000020
std::string TemporaryFolder(const std::string& dir, int64_t attempt, int64_t step);

// Returns `status`, or ABORTED if it is an error and the attempt's folder is gone: then the cause
// of any failure there is that the attempt is over.
absl::Status OrEnded(absl::Status status, const std::string& dir, int64_t attempt);

}  // namespace oneflow
