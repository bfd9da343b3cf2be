// What this host allows a run, whoever limits it: the machine, the control groups (containers,
// Slurm, systemd) that hold this process, and the process's own limits (ulimit). Groups are nested,
// and each of them limits: the smallest counts.
//
//   RETURN_IF_ERROR(CheckMemory({.of_process = 1 << 30, .of_host = 2 << 30}, notice));
//   RETURN_IF_ERROR(CheckThreads(12));
//   const KernelKills before = CountKernelKills();
//   ... a process is gone ...
//   const std::string why = DescribeKernelKills(before);
//
// `root`: the folder with proc and sys that is read; tests have their own. What cannot be read
// limits nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace oneflow {

// Bytes of the host's memory that a plan takes: in this process, and in all processes of the run on
// this host.
struct PlannedMemory {
  int64_t of_process = 0, of_host = 0;
};

// Refuses what the host's memory and swap, a control group or `ulimit -v` and `-d` will never hold.
// `notice` gets a warning about what does not fit at this time; it may be empty.
absl::Status CheckMemory(const PlannedMemory& planned,
                         const std::function<void(const std::string& warning)>& notice,
                         const std::string& root = "");

// After memory could not be mapped: "; `ulimit -v` allows ..."; empty if it allows anything.
std::string DescribeAddressSpace();

// Refuses if this process cannot have `more` threads besides those that it has: starts them, and
// ends them at once.
absl::Status CheckThreads(int more, const std::string& root = "");

// Refuses if this process cannot open `more` files besides those that it has: sockets are files,
// too.
absl::Status CheckFiles(int more);

// After a thread could not be started: the limit that forbids it, "`ulimit -u` allows ...".
std::string DescribeThreadLimit(const std::string& root = "");

// Processors whose time a control group gives this process, rounded down but at least 1; nothing if
// none limits it.
std::optional<int> CpuQuota(const std::string& root = "");

// Processes that the kernel has killed for want of memory, so far.
struct KernelKills {
  int64_t in_group = 0, on_host = 0;
};
KernelKills CountKernelKills(const std::string& root = "");
// "the kernel has killed ... for want of memory", if there are more than `before`; else empty.
std::string DescribeKernelKills(const KernelKills& before, const std::string& root = "");

}  // namespace oneflow
