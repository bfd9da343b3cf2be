#include "tools/oneflow/job/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/job/command.h"

namespace oneflow {
namespace {

// The jobs that submit has queued, and any other that runs the script.
absl::StatusOr<std::vector<SlurmJob>> JobsOfSlurm(const JobDir& dir) {
  std::vector<std::string> ids = dir.Jobs();
  const std::string owner = dir.Owner();
  if (!owner.empty() && std::find(ids.begin(), ids.end(), owner) == ids.end()) ids.push_back(owner);
  if (ids.empty()) return std::vector<SlurmJob>();
  const std::vector<std::string> squeue = SqueueCommand(ids);
  ASSIGN_OR_RETURN(const CommandResult result, RunCommand(squeue));
  // Slurm's answer of a single job that it has forgotten.
  if (result.err.find("Invalid job id") != result.err.npos) return std::vector<SlurmJob>();
  if (result.code != 0) return CommandError(squeue, result);
  return ParseSqueue(result.out);
}

absl::StatusOr<std::vector<SlurmJob>> LocalJobs(const JobDir& dir, const JobRecord& record) {
  ASSIGN_OR_RETURN(const bool held, JobLock::IsHeld(dir));
  if (!held) return std::vector<SlurmJob>();
  const std::vector<std::string> ids = dir.Jobs();
  if (ids.empty()) {
    return absl::UnavailableError(absl::StrCat(
        dir.File("jobs"), ": names no process, but one holds ", dir.File("lock"),
        "; if `oneflow submit` is at work there, call again; else end that process (fuser finds "
        "it)"));
  }
  return std::vector<SlurmJob>{{ids[0], "RUNNING", 1, record.host}};
}

}  // namespace

absl::StatusOr<std::vector<SlurmJob>> JobsAtEngine(const JobDir& dir, const JobRecord& record) {
  switch (record.engine) {
    case Engine::kSlurm: return JobsOfSlurm(dir);
    case Engine::kLocal: return LocalJobs(dir, record);
    case Engine::kKubernetes: return std::vector<SlurmJob>();
  }
  return std::vector<SlurmJob>();
}

absl::Status CheckNoLiveJob(const JobDir& dir) {
  if (!dir.Has("job.json")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JobRecord record, dir.ReadRecord());
  // A local job holds the lock, which submit has by now.
  if (record.engine != Engine::kSlurm) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<SlurmJob> jobs, JobsOfSlurm(dir));
  for (const SlurmJob& job : jobs) {
    if (!IsLive(job)) continue;
    return InputError("--job_dir=" + dir.path(),
                      absl::StrCat("belongs to Slurm's job ", job.id, ", which is ", job.state),
                      "give another directory, or `oneflow cancel` that job first");
  }
  return absl::OkStatus();
}

std::string DescribeState(const std::optional<std::vector<SlurmJob>>& jobs,
                          const std::optional<nlohmann::ordered_json>& final_json, bool cancelled) {
  if (final_json && final_json->contains("state") && final_json->at("state").is_string()) {
    return final_json->at("state").get<std::string>();
  }
  if (!jobs) return "unknown";
  bool live = false;
  for (const SlurmJob& job : *jobs) {
    if (!IsLive(job)) continue;
    if (job.state != "PENDING") return "running";
    live = true;
  }
  if (live) return "queued";
  return cancelled ? "cancelled" : "stopped";
}

}  // namespace oneflow
