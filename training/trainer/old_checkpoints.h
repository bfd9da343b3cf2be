// Removes or renames existing checkpoints of a folder. The caller holds the lock of the folder
// (folder_lock.h), and no checkpoint is being written.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

// For a run that begins in a folder of another run's checkpoints: they are moved to DIR/old-N, so
// that nothing is lost and "the latest" is never another run's. Returns that folder; empty if there
// are none.
absl::StatusOr<std::string> SetCheckpointsAside(const std::string& dir);

// For a run that went back to the checkpoint of `step`, since later ones are damaged: those are
// moved to DIR/old-N, or they would be taken for the newest. Returns that folder; empty if there
// are none.
absl::StatusOr<std::string> SetLaterAside(const std::string& dir, int64_t step);

// Removes complete checkpoints but for the `keep` >= 1 of the highest steps. Call it when the
// newest is complete and on the disk. Each goes at one stroke: it is step-N.tmp, which nobody
// reads, before the first of its files is removed. Remains of earlier removals and saves under such
// names are removed, too.
absl::Status KeepNewest(const std::string& dir, int64_t keep);

}  // namespace oneflow
