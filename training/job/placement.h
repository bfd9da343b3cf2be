// JobPlacement: the index of this process in its job, the number of processes, and the
// coordinator's address: a pure function of flags and environment.
//
// Index and number of processes come from the first of these that is given, and that has started
// more than one process, if any has:
//   --process_index, --processes          processes started by hand
//   RANK, WORLD_SIZE                      torchrun, and launchers that imitate it
//   OMPI_COMM_WORLD_RANK, _SIZE           mpirun of Open MPI; MV2_COMM_WORLD_ of MVAPICH, PMI_ of
//                                         MPICH and Intel
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS    a task of a Slurm step (srun); SLURM_NTASKS if the
//                                         latter is absent
//   JOB_COMPLETION_INDEX                  a pod of an indexed Kubernetes job; their number is
//                                         --processes or ONEFLOW_PROCESSES
//   PMIX_RANK                             other launchers of PMIx; their number is --processes
//   --processes alone                     this process is to start the others itself; also where a
//                                         launcher has started it alone, with WORLD_SIZE=1
// The coordinator's address comes from --coordinator, else ONEFLOW_COORDINATOR, else from the
// launcher: MASTER_ADDR and MASTER_PORT, or the first node of SLURM_STEP_NODELIST. Under torchrun,
// whose agent holds MASTER_PORT, and under Slurm the ports are drawn, by a hash of address, port
// and run id, or of the ids of job and step. mpirun names no address. The attempt is
// ONEFLOW_ATTEMPT, else SLURM_RESTART_COUNT, else TORCHELASTIC_RESTART_COUNT, else 0. Processes
// meet on loopback if the launcher says that they are on one host (LOCAL_WORLD_SIZE is WORLD_SIZE;
// the step has one node).
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
  std::string coordinator;       // HOST:PORT; empty where processes is 1, or starts_others
  std::vector<int> other_ports;  // HOST's, at which it may be instead, in this order
  int64_t attempt = 0;
  bool starts_others = false;      // nobody else does
  std::vector<std::string> hosts;  // each process's, if the launcher says them; else none
  std::string source;  // "flags", "torchrun", "Slurm", "Kubernetes", "mpirun", "PMIx" or "alone"
};

// Refuses flags and variables that are incomplete or contradict each other; the error names them.
absl::StatusOr<JobPlacement> FindPlacement(
    const PlacementFlags& flags,
    absl::FunctionRef<std::optional<std::string>(const std::string&)> environment);

// All names of a list in Slurm's notation: "n3", "n4", "m1" of "n[3-4],m1"; the first `most`. At
// least one.
absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view hostlist, size_t most);

}  // namespace oneflow
