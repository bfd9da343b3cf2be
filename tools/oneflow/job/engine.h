// The jobs of a job directory, as their engine knows them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/oneflow/job/job_dir.h"
#include "tools/oneflow/job/slurm.h"

namespace oneflow {

// The jobs of a directory as its engine knows them, in the form of Slurm's answer: a local job is
// RUNNING or is none. Jobs that Slurm has forgotten are not there.
absl::StatusOr<std::vector<SlurmJob>> JobsAtEngine(const JobDir& dir, const JobRecord& record);

// An error where a job of the directory is live: what the directory holds is its own.
absl::Status CheckNoLiveJob(const JobDir& dir);

// In a word: queued, running, done, failed, cancelled, or stopped: no job is left, and it is not
// over. "unknown" where only the engine could say: `jobs` are none if it is not asked, as
// Kubernetes is not, or does not answer.
std::string DescribeState(const std::optional<std::vector<SlurmJob>>& jobs,
                          const std::optional<nlohmann::ordered_json>& final_json, bool cancelled);

}  // namespace oneflow
