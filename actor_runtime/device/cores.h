// The cores that this process may use: those of its affinity mask (taskset, Slurm), not of the
// machine.
#pragma once

#include <sched.h>

#include <algorithm>

namespace oneflow {

// Number of cores; at least 1.
inline int Cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace oneflow
