// A part of a checkpoint: the slices that one process has written, their positions and their
// checksums, as bytes that another process merges. The format is that of the manifest (manifest.h),
// except for its first lines:
//
//   "format": "oneflow checkpoint part",
//   "version": 2,
//   "plan": "0123...", "step": 20, "attempt": 3, "process": 1, "ranks": [4,8],   (a line each)
//   "block": 4194304,
//
// "variables" has only those of which the process has written a slice. "ranks" is empty if the
// process owns all ranks.
//
// A part comes over a network: all of it is checked before it is used.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "proto/plan.pb.h"
#include "training/checkpoint/manifest.h"

namespace oneflow {

struct CheckpointPart {
  std::string plan;  // fingerprint
  int64_t step = 0;
  int64_t attempt = 0;
  int64_t process = 0;
  RankRange ranks;  // empty: all
  std::vector<StoredVariable> variables;
};

// The variables of a plan that program `save` writes, without slices: not those that are frozen.
absl::StatusOr<std::vector<StoredVariable>> FindVariables(const proto::Plan& plan);

// The file of a rank's slices: rank-00003.bin.
std::string RankFileName(int64_t rank);

std::string ToText(const CheckpointPart& part);

// The variables of `plan` with the slices of all parts; the order of the parts does not matter.
// INTERNAL unless each part is intact, is of this plan, step and attempt, is of another process
// than the others, and names files of its ranks only; and unless the slices cover the variables
// and the files.
absl::StatusOr<std::vector<StoredVariable>> MergeParts(const proto::Plan& plan, int64_t step,
                                                       int64_t attempt,
                                                       std::span<const std::string> parts);

}  // namespace oneflow
