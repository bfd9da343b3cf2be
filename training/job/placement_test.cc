#include "training/job/placement.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using Environment = std::map<std::string, std::string>;

absl::StatusOr<JobPlacement> Find(const Environment& environment,
                                  const PlacementFlags& flags = {}) {
  return FindPlacement(flags, [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string Refusal(const Environment& environment, const PlacementFlags& flags = {}) {
  const absl::StatusOr<JobPlacement> placement = Find(environment, flags);
  REQUIRE_FALSE(placement.ok());
  CHECK(placement.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(placement.status().message());
}

const Environment kTorchrun = {
    {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
const Environment kSlurm = {{"SLURM_PROCID", "2"},   {"SLURM_NTASKS", "4"},
                            {"SLURM_JOB_ID", "117"}, {"SLURM_STEP_ID", "0"},
                            {"SLURM_JOBID", "117"},  {"SLURM_STEP_NODELIST", "n[03-05,9],m1"}};
const Environment kPod = {{"JOB_COMPLETION_INDEX", "1"},
                          {"ONEFLOW_PROCESSES", "2"},
                          {"ONEFLOW_COORDINATOR", "gpt-0.gpt:4000"}};

Environment With(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}
Environment Without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

TEST_CASE("Nobody says anything: one process") {
  const JobPlacement placement = Find({}).value();
  CHECK(placement.process == 0);
  CHECK(placement.processes == 1);
  CHECK(placement.source == "alone");
  CHECK_FALSE(placement.starts_others);
  CHECK(Find({}, {.processes = 4})->starts_others);
  CHECK(Find({}, {.processes = 4})->processes == 4);
  // The batch script of a Slurm job is no task of a step.
  CHECK(Find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})->processes == 1);
}

TEST_CASE("Flags come before all variables") {
  const PlacementFlags flags{.coordinator = "h:1", .process_index = 1, .processes = 2};
  for (const Environment& environment : {Environment(), kTorchrun, kSlurm, kPod}) {
    const JobPlacement placement = Find(environment, flags).value();
    CHECK(placement.process == 1);
    CHECK(placement.processes == 2);
    CHECK(placement.coordinator == "h:1");
    CHECK(placement.source == "flags");
  }
}

// All ports of the coordinator, in their order.
std::vector<int> Ports(const Environment& environment) {
  const JobPlacement placement = Find(environment).value();
  std::vector<int> ports = placement.other_ports;
  ports.insert(ports.begin(),
               std::stoi(placement.coordinator.substr(placement.coordinator.rfind(':') + 1)));
  return ports;
}

TEST_CASE("torchrun: its agent holds the port") {
  JobPlacement placement = Find(kTorchrun).value();
  CHECK(placement.process == 3);
  CHECK(placement.processes == 8);
  CHECK(placement.coordinator == "10.0.0.1:29500");
  placement = Find(With(kTorchrun, "TORCHELASTIC_RUN_ID", "none")).value();
  CHECK(placement.coordinator.rfind("10.0.0.1:2", 0) == 0);
  for (const int port : Ports(With(kTorchrun, "TORCHELASTIC_RUN_ID", "none"))) {
    CHECK((port >= 20000 && port < 29000));
  }
  CHECK(Find(With(kTorchrun, "MASTER_ADDR", "fd00::1"))->coordinator == "[fd00::1]:29500");
  CHECK(Find(kTorchrun, {.coordinator = "h:1"})->coordinator == "h:1");
  // srun torchrun: the inner launcher counts.
  Environment both = kSlurm;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  CHECK(Find(both)->source == "torchrun");
}

TEST_CASE("torchrun: no job takes the ports of its neighbours") {
  std::set<std::vector<int>> seen;
  const Environment job = With(kTorchrun, "TORCHELASTIC_RUN_ID", "none");
  for (const int master : {29500, 29501, 29502, 20000, 24321, 28990}) {
    const Environment neighbour = With(job, "MASTER_PORT", std::to_string(master));
    const std::vector<int> ports = Ports(neighbour);
    CHECK(ports == Ports(With(neighbour, "RANK", "7")));
    CHECK(seen.insert(ports).second);
    CHECK(std::set<int>(ports.begin(), ports.end()).size() == 4);
    for (const int port : ports) CHECK(std::abs(port - master) >= 100);
  }
  CHECK(Ports(job) != Ports(With(job, "TORCHELASTIC_RUN_ID", "4711")));
  CHECK(Ports(job) != Ports(With(job, "MASTER_ADDR", "10.0.0.2")));
  // A launcher that leaves MASTER_PORT free is found there; if somebody else holds it, at another
  // one.
  const std::vector<int> imitated = Ports(kTorchrun);
  CHECK(imitated[0] == 29500);
  CHECK(imitated.size() == 5);
  // An address that a user gives is the only one.
  CHECK(Find(job, {.coordinator = "h:1"})->other_ports.empty());
}

TEST_CASE("torchrun: processes of one host meet on loopback, whatever its name is") {
  for (const char* host : {"node7", "10.0.0.1", "fd00::1"}) {
    Environment job = With(kTorchrun, "MASTER_ADDR", host);
    CHECK(Find(With(job, "LOCAL_WORLD_SIZE", "8"))->coordinator == "127.0.0.1:29500");
    CHECK(Find(With(job, "LOCAL_WORLD_SIZE", "4"))->coordinator.rfind("127.", 0) != 0);
  }
}

TEST_CASE("A launcher that has started one process does not decide how many a job has") {
  const Environment torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "1"}}, alone = {{"WORLD_SIZE", "1"}};
  const Environment slurm = {{"SLURM_PROCID", "0"},
                             {"SLURM_STEP_NUM_TASKS", "1"},
                             {"SLURM_STEP_NODELIST", "n1"},
                             {"SLURM_JOB_ID", "5"},
                             {"SLURM_STEP_ID", "0"}};
  const Environment pod = {{"JOB_COMPLETION_INDEX", "0"}, {"ONEFLOW_PROCESSES", "1"}};
  const Environment mpi = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  for (const Environment& outer : {torchrun, alone, slurm, pod, mpi}) {
    CHECK(Find(outer, {.processes = 2})->starts_others);
    CHECK(Find(outer, {.processes = 2})->processes == 2);
    CHECK(Find(outer)->processes == 1);
    CHECK(Refusal(outer, {.coordinator = "h:1", .processes = 2}).rfind("--coordinator: ", 0) == 0);
    // It may be around the launcher that counts.
    Environment both = kSlurm;
    both.insert(outer.begin(), outer.end());
    if (outer != slurm) CHECK(Find(both)->processes == 4);
  }
  CHECK(Refusal(kTorchrun, {.processes = 1})
            .find("give --process_index=0, too, for a run of this "
                  "process alone") != std::string::npos);
}

TEST_CASE("mpirun: the processes join where an address is given, and say so where none is") {
  for (const std::string name : {"OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "PMI_"}) {
    const Environment mpi = {{name + "RANK", "1"}, {name + "SIZE", "2"}};
    CHECK(Refusal(mpi) ==
          "--coordinator: is not given, and mpirun says none; give --coordinator=HOST:PORT or set "
          "ONEFLOW_COORDINATOR, the same in all");
    const JobPlacement placement = Find(mpi, {.coordinator = "h:1"}).value();
    CHECK(placement.process == 1);
    CHECK(placement.processes == 2);
    CHECK(placement.source == "mpirun");
    CHECK(Refusal(Without(mpi, name + "SIZE")).rfind(name + "SIZE: is not set", 0) == 0);
    CHECK(Find(mpi, {.process_index = 0, .processes = 1})->processes == 1);
  }
  CHECK(Refusal({{"PMIX_RANK", "1"}}).rfind("--processes: is not given, and PMIX_RANK", 0) == 0);
  CHECK(Find({{"PMIX_RANK", "1"}}, {.coordinator = "h:1", .processes = 2})->process == 1);
  // Slurm sets the variables of PMI and PMIx for its own tasks.
  Environment slurm = With(With(kSlurm, "PMI_RANK", "2"), "PMI_SIZE", "4");
  slurm["SLURM_STEP_NUM_TASKS"] = "4";
  CHECK(Find(With(slurm, "PMIX_RANK", "2"))->source == "Slurm");
  // mpirun starts its agents by srun, one a node.
  CHECK(Find(With(With(kSlurm, "OMPI_COMM_WORLD_RANK", "5"), "OMPI_COMM_WORLD_SIZE", "8"),
             {.coordinator = "h:1"})
            ->process == 5);
}

TEST_CASE("Slurm: the first node of the step, and a port of job and step") {
  const JobPlacement placement = Find(kSlurm).value();
  CHECK(placement.process == 2);
  CHECK(placement.processes == 4);
  CHECK(placement.coordinator == "n03:" + std::to_string(Ports(kSlurm)[0]));
  CHECK(Ports(kSlurm).size() == 4);
  CHECK(Find(With(kSlurm, "SLURM_STEP_NUM_TASKS", "3"))->processes == 3);
  CHECK(Ports(With(kSlurm, "SLURM_STEP_ID", "1")) != Ports(kSlurm));
  CHECK(Ports(With(kSlurm, "SLURM_JOB_ID", "118")) != Ports(kSlurm));
  CHECK(Ports(With(kSlurm, "SLURM_PROCID", "0")) == Ports(kSlurm));
  CHECK(Find(With(kSlurm, "SLURM_JOB_ID", "4294967295"))->processes == 4);
}

TEST_CASE("Slurm: the tasks of one node meet on loopback") {
  CHECK(Find(With(kSlurm, "SLURM_STEP_NUM_NODES", "1"))->coordinator.rfind("127.0.0.1:", 0) == 0);
  CHECK(Find(With(kSlurm, "SLURM_STEP_NUM_NODES", "2"))->coordinator.rfind("n03:", 0) == 0);
}

TEST_CASE("Slurm: the host of each task") {
  using Names = std::vector<std::string>;
  const auto hosts = [](const std::string& tasks) {
    return Find(With(kSlurm, "SLURM_STEP_TASKS_PER_NODE", tasks))->hosts;
  };
  CHECK(hosts("1(x4)") == Names{"n03", "n04", "n05", "n9"});
  CHECK(hosts("1,2,1") == Names{"n03", "n04", "n04", "n05"});
  CHECK(hosts("2(x2)") == Names{"n03", "n03", "n04", "n04"});
  for (const char* foreign : {"", "x", "2", "9(x9)", "-1(x4)", "1(xy)", "1("}) {
    CHECK(hosts(foreign).empty());
  }
  CHECK(Find(kTorchrun)->hosts.empty());
}

TEST_CASE("All names of a host list") {
  using Names = std::vector<std::string>;
  CHECK(ExpandHosts("a", 9).value() == Names{"a"});
  CHECK(ExpandHosts("n[08-11,3],m1", 9).value() == Names{"n08", "n09", "n10", "n11", "n3", "m1"});
  CHECK(ExpandHosts("r[1-2]n[01-02]x", 9).value() == Names{"r1n01x", "r1n02x", "r2n01x", "r2n02x"});
  CHECK(ExpandHosts("n[1-1000000000]", 3).value() == Names{"n1", "n2", "n3"});
  CHECK(ExpandHosts("n[4,6]-ib,m2", 1).value() == Names{"n4-ib"});
  CHECK(ExpandHosts("r[1-2]n[04-07]", 1).value() == Names{"r1n04"});
  for (const char* foreign :
       {"", ",n1", "n[", "n[1", "n1]", "n[]", "n[2-1]", "n[-2]", "n[a]", "a,,b", "n[1-2"}) {
    INFO(foreign);
    CHECK_FALSE(ExpandHosts(foreign, 9).ok());
  }
}

TEST_CASE("Kubernetes: the index of the pod") {
  const JobPlacement placement = Find(kPod).value();
  CHECK(placement.process == 1);
  CHECK(placement.processes == 2);
  CHECK(placement.coordinator == "gpt-0.gpt:4000");
  CHECK(Find(Without(kPod, "ONEFLOW_PROCESSES"), {.processes = 6})->processes == 6);
}

TEST_CASE("The attempt is the first count of restarts that is set") {
  CHECK(Find({})->attempt == 0);
  Environment environment = {{"TORCHELASTIC_RESTART_COUNT", "2"}};
  CHECK(Find(environment)->attempt == 2);
  environment["SLURM_RESTART_COUNT"] = "3";
  CHECK(Find(environment)->attempt == 3);
  environment["ONEFLOW_ATTEMPT"] = "11";
  CHECK(Find(environment)->attempt == 11);
  environment["ONEFLOW_ATTEMPT"] = "";
  CHECK(Find(environment)->attempt == 3);
}

TEST_CASE("Incomplete or contradictory placements are refused by name") {
  CHECK(Refusal({}, {.process_index = 1}) ==
        "--process_index: does not say of how many; give --processes, too");
  CHECK(Refusal({}, {.coordinator = "h:1"}) ==
        "--coordinator: is given, but not which process this is; give --process_index and "
        "--processes, too");
  CHECK(Refusal({}, {.process_index = 2, .processes = 2}) ==
        "--process_index: 2 is not below --processes=2; number the processes from 0");
  CHECK(Refusal({}, {.process_index = 1, .processes = 2}).rfind("--coordinator: is not given", 0) ==
        0);
  CHECK(Refusal({}, {.processes = 0}).rfind("--processes: 0 is out of range", 0) == 0);
  CHECK(Refusal(kTorchrun, {.processes = 2}) ==
        "--processes: 2 contradicts WORLD_SIZE=8; leave the flag out, or start that many");
  CHECK(Refusal(With(kTorchrun, "RANK", "8")).rfind("RANK: 8 is not below WORLD_SIZE=8", 0) == 0);
  CHECK(Refusal(With(kTorchrun, "RANK", "three")).rfind("RANK: \"three\" is not a number", 0) == 0);
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    CHECK(Refusal(Without(kTorchrun, name)).rfind(std::string(name) + ": is not set", 0) == 0);
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    CHECK(Refusal(Without(kSlurm, name)).rfind(std::string(name) + ": is not set", 0) == 0);
  }
  CHECK(Refusal(With(kSlurm, "SLURM_STEP_NODELIST", "n[1-")).rfind("SLURM_STEP_NODELIST: ", 0) ==
        0);
  CHECK(Refusal(Without(kPod, "ONEFLOW_PROCESSES"))
            .rfind("ONEFLOW_PROCESSES: is not set, but JOB_COMPLETION_INDEX is", 0) == 0);
  CHECK(Refusal(Without(kPod, "ONEFLOW_COORDINATOR")).rfind("--coordinator: is not given", 0) == 0);
  CHECK(Refusal(kPod, {.processes = 3}).rfind("--processes: 3 contradicts", 0) == 0);
  CHECK(Refusal({{"ONEFLOW_ATTEMPT", "-1"}}).rfind("ONEFLOW_ATTEMPT: \"-1\"", 0) == 0);
}

}  // namespace
}  // namespace oneflow
