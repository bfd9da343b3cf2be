// The workers of a process, and the streams that each of them drives in each program. The first
// workers are those of the devices, in order of ranks; then comes the host's; then those of streams
// that have a worker of their own (StreamOrder::alone), in order of ranks. Such a worker drives at
// most one stream of a program, so a rank has as many of them as any program needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actor_runtime/exec/loaded_plan.h"
#include "actor_runtime/exec/net.h"

namespace oneflow {

// The assignment of streams to workers in one program.
struct Assignment {
  std::vector<std::vector<int32_t>> streams_of;  // by worker
  std::vector<int32_t> worker_of;                // by stream
  std::vector<std::string> names;                // by worker: "rank 0", "host", "rank 0, copy.in"
};

struct WorkerTeam {
  RankRange own;
  std::vector<int32_t> ranks;        // by worker; kHost
  std::vector<Assignment> programs;  // by program
  std::vector<bool> computes;        // by worker: it calls kernels that use several threads

  static constexpr int32_t kHost = -1;
  int size() const { return static_cast<int>(ranks.size()); }
  bool IsOfDevice(int worker) const { return worker < own.size(); }
  // The worker of the device of a rank of this process.
  int FindWorker(int32_t rank) const { return rank - own.begin; }
};

WorkerTeam AssignWorkers(const std::vector<LoadedProgram>& programs, RankRange own);

}  // namespace oneflow
