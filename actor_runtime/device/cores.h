// The cores that this process may use: those of its affinity mask (taskset, Slurm), not of the
// machine, and no more than the processor time that its control groups give it (docker --cpus).
#pragma once

#include <sched.h>

#include <algorithm>

#include "actor_runtime/device/host_limits.h"

namespace oneflow {

// Number of cores; at least 1.
inline int Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int cores = std::max(1, CPU_COUNT(&set));
  return std::min(cores, CpuQuota().value_or(cores));
}

}  // namespace oneflow
