// JobPlacement: the index of this process in its job, the number of processes, and the
// coordinator's address: a pure function of flags and environment.
//
// Index and number of processes come from the first of these that is given:
//   --process_index, --processes          processes started by hand
//   RANK, WORLD_SIZE                      torchrun, and launchers that imitate it
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS    a task of a Slurm step (srun); SLURM_NTASKS if the
//                                         latter is absent
//   JOB_COMPLETION_INDEX                  a pod of an indexed Kubernetes job; their number is
//                                         --processes or ONEFLOW_PROCESSES
//   --processes alone                     this process is to start the others itself
// The coordinator's address comes from --coordinator, else ONEFLOW_COORDINATOR, else from the
// launcher: MASTER_ADDR and MASTER_PORT (under torchrun the port after it: its agent holds
// MASTER_PORT), or the first node of SLURM_STEP_NODELIST and a port made of the ids of job and
// step. The attempt is ONEFLOW_ATTEMPT, else SLURM_RESTART_COUNT, else TORCHELASTIC_RESTART_COUNT,
// else 0. The tasks of a Slurm step that has one node meet on loopback.
//
//   ASSIGN_OR_RETURN(JobPlacement placement, FindPlacement(flags, [](const std::string& name) {
//     const char* value = std::getenv(name.c_str());
//     return value == nullptr ? std::nullopt : std::optional<std::string>(value);
//   }));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace oneflow {

struct PlacementFlags {
  std::string coordinator;  // empty: not given
  std::optional<int64_t> process_index, processes;
};

struct JobPlacement {
  int process = 0, processes = 1;
  std::string coordinator;  // HOST:PORT; empty where processes is 1, or starts_others
  int64_t attempt = 0;
  bool starts_others = false;      // nobody else does
  std::vector<std::string> hosts;  // of each process, where the launcher says; else none
  std::string source;              // "flags", "torchrun", "Slurm", "Kubernetes" or "alone"
};

// Refuses flags and variables that are incomplete or contradict each other; the error names them.
absl::StatusOr<JobPlacement> FindPlacement(
    const PlacementFlags& flags,
    absl::FunctionRef<std::optional<std::string>(const std::string&)> environment);

// All names of a list in Slurm's notation: "n3", "n4", "m1" of "n[3-4],m1"; at most `most`.
absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view hostlist, size_t most);

// The first name of a list in Slurm's notation: "n3" of "n[3-5,9],m1", "r1n04" of "r[1-2]n[04-07]".
absl::StatusOr<std::string> FirstHost(std::string_view hostlist);

}  // namespace oneflow
