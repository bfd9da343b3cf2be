// Slurm's commands as values: the words of each, and what its answer says. All here is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tools/oneflow/job/job_spec.h"

namespace oneflow {

// sbatch of a script; `after`: the job whose successor it is, empty for the first.
std::vector<std::string> SbatchCommand(const std::string& script, const std::string& after);
// The job's id in what `sbatch --parsable` prints, "12" or "12;cluster"; empty where there is none.
std::string ParseSbatch(std::string_view text);

struct SlurmJob {
  std::string id, state;  // "RUNNING"
  int64_t nodes = 0;
  std::string where;  // the nodes, or why it waits
};
std::vector<std::string> SqueueCommand(const std::vector<std::string>& jobs);
std::vector<SlurmJob> ParseSqueue(std::string_view text);
// A job that Slurm will run, or runs; "COMPLETING" counts: its processes may still write.
bool IsLive(const SlurmJob& job);

// The command that lists numbers of nodes by their memory, in a partition, or in all if it is
// empty.
std::vector<std::string> SinfoCommand(const std::string& partition);
// Refuses a job that needs more nodes with so much memory than there are, as `sinfo` says. Slurm is
// not told of the memory: a job that has its nodes alone takes all of theirs.
absl::Status CheckRoom(std::string_view sinfo, const JobSpec& spec, int64_t bytes_a_node);

}  // namespace oneflow
