#include "tests/e2e/small_processes.h"

#include <stdexcept>
#include <thread>
#include <utility>

#include "actor_runtime/exec/stage_mesh.h"

namespace oneflow {
namespace {

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

}  // namespace

SmallProcesses::SmallProcesses(const proto::Plan& plan, const Options& options) {
  const int each = MakeStageMesh(plan).value().ranks() / options.processes;
  for (int p = 0; p < options.processes; ++p) {
    UcxOptions network{.process = p, .processes = options.processes, .job = 7};
    network.interface = "lo";
    network.transports = options.transports;
    network.spin = false;
    networks_.push_back(UcxNetwork::Open(network, [](int, const absl::Status&) {}).value());
  }
  for (int p = 0; p < options.processes; ++p) {
    for (int other = 0; other < options.processes; ++other) {
      if (p != other) Check(networks_[p]->Connect(other, networks_[other]->address()));
    }
  }
  for (int p = 0; p < options.processes; ++p) {
    RuntimeOptions runtime;
    runtime.ranks = {p * each, (p + 1) * each};
    runtime.threads = each;
    runtime.make_kernel = options.make_kernel;
    runtime.spin = false;
    runtime.trace = options.trace;
    runtime.make_communicator = [this, p](const Group& group, const ExchangeBounds& bounds) {
      return networks_[p]->MakeCommunicator(group, bounds);
    };
    runtimes_.push_back(Runtime::Create(plan, runtime).value());
  }
  for (const auto& network : networks_) network->Start();
  for (const auto& network : networks_) network->Watch(5 * kJobSecond);
}

SmallProcesses::~SmallProcesses() {
  for (const auto& network : networks_) network->Close();
  runtimes_.clear();
}

std::vector<absl::Status> SmallProcesses::Run(
    const std::string& program, int64_t steps,
    const std::function<RunContext(int process)>& context) {
  std::vector<absl::Status> statuses(runtimes_.size());
  std::vector<std::thread> threads;
  for (size_t p = 0; p < runtimes_.size(); ++p) {
    threads.emplace_back([&, p] {
      const RunContext of_process = context(static_cast<int>(p));
      statuses[p] = runtimes_[p]->Run(program, of_process, steps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace oneflow
