// What is said to cross between processes is what the network counts, message by message.
#include "actor_runtime/simulate/crossings.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/network/ucx_network.h"
#include "actor_runtime/simulate/simulate_on.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 3;

// Only who sends what to whom counts here, not what it is.
absl::StatusOr<Kernel> MakeNothing(const KernelSetup&) {
  return Kernel([](const KernelCall&) { return absl::OkStatus(); });
}

// The processes of a plan, each with a network and ranks of its own.
class Run {
 public:
  Run(const proto::Plan& plan, int processes) {
    const int each = RanksAProcess(plan, processes).value();
    for (int p = 0; p < processes; ++p) {
      UcxOptions options{.process = p, .processes = processes, .job = 7};
      options.interface = "lo";
      options.transports = "posix,self";
      networks_.push_back(UcxNetwork::Open(options, [](int, const absl::Status& why) {
                            FAIL(why.message());
                          }).value());
    }
    for (int p = 0; p < processes; ++p) {
      for (int other = 0; other < processes; ++other) {
        if (p != other) REQUIRE(networks_[p]->Connect(other, networks_[other]->address()).ok());
      }
    }
    for (int p = 0; p < processes; ++p) {
      RuntimeOptions options;
      options.ranks = {p * each, (p + 1) * each};
      options.make_kernel = MakeNothing;
      options.spin = false;
      options.make_communicator = [this, p, each](const GroupAcross& across) {
        FarGroup group{across.communicator, {}, p, across.tensors, across.first};
        for (const int32_t rank : across.ranks) group.process.push_back(rank / each);
        return networks_[p]->MakeCommunicator(group);
      };
      absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(plan, options);
      INFO(runtime.status());
      REQUIRE(runtime.ok());
      runtimes_.push_back(*std::move(runtime));
    }
    for (const auto& network : networks_) network->Start();
  }
  ~Run() {
    for (const auto& network : networks_) network->Close();
    runtimes_.clear();
  }

  void Train() {
    std::vector<absl::Status> statuses(runtimes_.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < runtimes_.size(); ++p) {
      threads.emplace_back([&, p] { statuses[p] = runtimes_[p]->Run("train", {}, kSteps); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) CHECK(status.message() == "");
  }

  NetworkTotals totals(int process) const { return networks_[process]->totals(); }

 private:
  std::vector<std::unique_ptr<UcxNetwork>> networks_;
  std::vector<std::unique_ptr<Runtime>> runtimes_;
};

struct Case {
  std::string mesh;
  int processes;
  std::string schedule = "1f1b";
};

TEST_CASE("what is said to cross is what networks count") {
  const Case c = GENERATE(Case{"data=2", 2}, Case{"tensor=2", 2}, Case{"pipe=2", 2},
                          Case{"data=2,tensor=2", 2}, Case{"data=2,tensor=2", 4},
                          Case{"pipe=2,data=2", 2}, Case{"pipe=2,tensor=2", 4, "gpipe"});
  INFO(c.mesh << " in " << c.processes);
  SmallRun small;
  small.mesh = c.mesh;
  small.schedule = c.schedule;
  const proto::Plan plan = CompileSmall(small);
  const Crossings crossings = CrossingsOf(plan, "train", c.processes).value();
  Run run(plan, c.processes);
  run.Train();
  Traffic all, of_stages;
  for (int p = 0; p < c.processes; ++p) {
    INFO("process " << p);
    const Traffic& said = crossings.by_process[p];
    const NetworkTotals counted = run.totals(p);
    CHECK(said.messages_sent > 0);
    CHECK(said.bytes_received > 0);
    CHECK(kSteps * said.messages_sent == counted.messages_sent);
    CHECK(kSteps * said.messages_received == counted.messages_received);
    CHECK(kSteps * said.bytes_sent == counted.bytes_sent);
    CHECK(kSteps * said.bytes_received == counted.bytes_received);
    all += said;
  }
  for (const Traffic& stage : crossings.by_stage) of_stages += stage;
  CHECK(all == crossings.all);
  CHECK(of_stages == crossings.all);
}

TEST_CASE("nothing crosses in one process, and ranks divide evenly") {
  SmallRun small;
  small.mesh = "data=2,tensor=2";
  const proto::Plan plan = CompileSmall(small);
  CHECK(CrossingsOf(plan, "train", 1).value().all == Traffic());
  CHECK_THAT(std::string(CrossingsOf(plan, "train", 3).status().message()),
             Catch::Contains("the plan's 4 devices cannot be divided evenly"));
}

// Two devices, a link between them that is as slow as told.
double StepOn(const proto::Plan& plan, int processes, double latency, double bandwidth) {
  proto::Cluster cluster;
  cluster.add_level()->set_bandwidth(1e10);
  proto::Level* host = cluster.add_level();
  host->set_latency(latency);
  host->set_bandwidth(bandwidth);
  cluster = WithProcesses(cluster, plan, processes).value();
  return SimulateOn(cluster, plan, "train", 3).value().StepSeconds();
}

TEST_CASE("far exchanges take the time of their link, near ones that of memory") {
  SmallRun small;
  small.mesh = "data=2";
  const proto::Plan plan = CompileSmall(small);
  const double near = StepOn(plan, 1, 1, 1);
  const double free = StepOn(plan, 2, 0, 1e18);
  CHECK(free <= near * 1.0001);  // copies are off the worker, sums are not
  const Traffic received = CrossingsOf(plan, "train", 2).value().by_process[0];
  // Nothing is computed meanwhile: every byte is waited for.
  const double slow = StepOn(plan, 2, 0, 1e6);
  CHECK(slow - free == Approx(static_cast<double>(received.bytes_received) / 1e6).epsilon(0.01));
  // Entered, asked for, sent, done: of each exchange at least.
  const double late = StepOn(plan, 2, 1e-3, 1e18);
  CHECK(late - free >= 4e-3);
}

}  // namespace
}  // namespace oneflow
