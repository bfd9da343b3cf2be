// Slurm's commands as values: the words of each, and what its answer says. All here is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/oneflow/job/job_spec.h"

namespace oneflow {

// sbatch of a script; `after`: the job whose successor it is, empty for the first.
std::vector<std::string> SbatchCommand(const std::string& script, const std::string& after);
// The job's id in what `sbatch --parsable` prints: "12" or "12;cluster".
absl::StatusOr<std::string> ParseSbatch(std::string_view text);

struct SlurmJob {
  std::string id, state;  // "RUNNING"
  int64_t nodes = 0;
  std::string where;  // the nodes, or why it waits
};
std::vector<std::string> SqueueCommand(const std::vector<std::string>& jobs);
std::vector<SlurmJob> ParseSqueue(std::string_view text);
// A job that Slurm will run, or runs; "COMPLETING" counts: its processes may still write.
bool IsLive(const SlurmJob& job);

struct NodeGroup {
  std::string partition;
  bool is_default = false;
  int64_t nodes = 0, memory_mib = 0;  // of each
};
std::vector<std::string> SinfoCommand();
std::vector<NodeGroup> ParseSinfo(std::string_view text);

// Refuses a job for which the partition (empty: the default one) never has enough nodes of enough
// memory. Slurm itself knows when they are free.
absl::Status CheckRoom(const std::vector<NodeGroup>& groups, const JobSpec& spec,
                       int64_t bytes_a_node);

}  // namespace oneflow
