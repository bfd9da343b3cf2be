// Children: the other processes of a run on this host, which process 0 starts itself.
//
//   ASSIGN_OR_RETURN(Children children, Children::Start(4, "127.0.0.1:40123"));
//   ... join, train ...
//   children.Await();
//
// Each is this program with the same arguments and its own process index, on a share of the cores
// that this process may use, where there are enough. They find out by themselves when the run is
// over or lost. It is not a supervisor: a process that ends early has reported to the coordinator,
// or is missed by it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

// The cores that the calling thread may use, and those that it and threads that it starts from now
// on may use.
std::vector<int> CoresOfThread();
void UseCores(const std::vector<int>& cores);

// True in a process that Start has started: its standard error is process 0's.
bool IsChild();
// False in a child whose process 0 has ended; true in all other processes.
bool IsParentAlive();

class Children {
 public:
  // Starts processes 1 to processes - 1. Then the calling thread keeps its share of the cores.
  static absl::StatusOr<Children> Start(int processes, const std::string& coordinator);
  Children(Children&& other) noexcept = default;
  Children& operator=(Children&&) = delete;
  // Kills those that are there after Await, or if it was not called.
  ~Children();

  // While they join: that one of them has not and never will. One that ends by itself has said why
  // to the coordinator, if it could.
  absl::Status CheckJoining();
  // Waits until all have ended, for so long at most.
  void Await(std::chrono::seconds patience);

 private:
  explicit Children(std::vector<pid_t> pids) : pids_(std::move(pids)) {}
  std::vector<pid_t> pids_;  // by process, from 1 on; 0: it has been waited for
};

}  // namespace oneflow
