// The processes of a plan, played by one: each has its own ranks, runtime and network, and their
// messages go over UCX.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/network/ucx_network.h"
#include "proto/plan.pb.h"

namespace oneflow {

class SmallProcesses {
 public:
  struct Options {
    int processes = 2;
    std::string transports = kSharedMemory;
    KernelFactory make_kernel;  // null: those of programs
    bool trace = false;
  };
  // Throws on errors.
  SmallProcesses(const proto::Plan& plan, const Options& options);
  ~SmallProcesses();

  // A run in all of them at once. `context`: by process.
  std::vector<absl::Status> Run(const std::string& program, int64_t steps,
                                const std::function<RunContext(int process)>& context);

  Runtime& runtime(int process) { return *runtimes_[process]; }
  NetworkTotals totals(int process) const { return networks_[process]->totals(); }
  TransportMemory memory(int process) const { return networks_[process]->memory(); }

 private:
  std::vector<std::unique_ptr<UcxNetwork>> networks_;
  std::vector<std::unique_ptr<Runtime>> runtimes_;
};

}  // namespace oneflow
