// The predicted bytes between processes are those that the network counts, message by message.
#include "planning/simulate/process_traffic.h"

#include <string>

#include <catch2/catch.hpp>

#include "planning/simulate/simulate_on.h"
#include "tests/e2e/small_processes.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr int64_t kSteps = 3;

// Only who sends what to whom counts here, not what it is.
absl::StatusOr<Kernel> MakeNothing(const KernelSetup&) {
  return Kernel([](const KernelCall&) { return absl::OkStatus(); });
}

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
  small.Set("mesh", c.mesh);
  small.recipe.set_schedule(c.schedule);
  const proto::Plan plan = CompileSmall(small);
  const ProcessTraffic traffic = FindProcessTraffic(plan, "train", c.processes).value();
  SmallProcesses run(plan, {.processes = c.processes, .make_kernel = MakeNothing});
  for (const absl::Status& status : run.Run("train", kSteps, [](int) { return RunContext(); })) {
    CHECK(status.message() == "");
  }
  Traffic all, of_stages;
  for (int p = 0; p < c.processes; ++p) {
    INFO("process " << p);
    const Traffic& said = traffic.by_process[p];
    const NetworkTotals counted = run.totals(p);
    CHECK(said.messages_sent > 0);
    CHECK(said.bytes_received > 0);
    CHECK(kSteps * said.messages_sent == counted.messages_sent);
    CHECK(kSteps * said.messages_received == counted.messages_received);
    CHECK(kSteps * said.bytes_sent == counted.bytes_sent);
    CHECK(kSteps * said.bytes_received == counted.bytes_received);
    all += said;
  }
  for (const Traffic& stage : traffic.by_stage) of_stages += stage;
  CHECK(all == traffic.all);
  CHECK(of_stages == traffic.all);
}

TEST_CASE("nothing crosses in one process, and ranks divide evenly") {
  SmallRun small;
  small.Set("--mesh=data=2,tensor=2");
  const proto::Plan plan = CompileSmall(small);
  CHECK(FindProcessTraffic(plan, "train", 1).value().all == Traffic());
  CHECK_THAT(std::string(FindProcessTraffic(plan, "train", 3).status().message()),
             Catch::Contains("the plan's 4 devices cannot be divided evenly"));
}

// Two devices, a link of the given speed between them.
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
  small.Set("--mesh=data=2");
  const proto::Plan plan = CompileSmall(small);
  const double near = StepOn(plan, 1, 1, 1);
  const double free = StepOn(plan, 2, 0, 1e18);
  CHECK(free <= near * 1.0001);  // copies are off the worker, sums are not
  const Traffic received = FindProcessTraffic(plan, "train", 2).value().by_process[0];
  // Nothing is computed meanwhile: every byte is waited for.
  const double slow = StepOn(plan, 2, 0, 1e6);
  CHECK(slow - free == Approx(static_cast<double>(received.bytes_received) / 1e6).epsilon(0.01));
  // Entered, asked for, sent, done: of each exchange at least.
  const double late = StepOn(plan, 2, 1e-3, 1e18);
  CHECK(late - free >= 4e-3);
}

}  // namespace
}  // namespace oneflow
