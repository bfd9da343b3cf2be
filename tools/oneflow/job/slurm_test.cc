#include "tools/oneflow/job/slurm.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "tools/oneflow/job/engine.h"

namespace oneflow {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("slurm: sbatch") {
  CHECK(SbatchCommand("/d/job.sh", "") == Words{"sbatch", "--parsable", "/d/job.sh"});
  CHECK(SbatchCommand("/d/job.sh", "12") == Words{"sbatch", "--parsable",
                                                  "--dependency=afternotok:12",
                                                  "--kill-on-invalid-dep=yes", "/d/job.sh"});
  CHECK(ParseSbatch("12\n") == "12");
  CHECK(ParseSbatch("12;cluster\n") == "12");
  CHECK(ParseSbatch("sbatch: hello").empty());
}

TEST_CASE("slurm: squeue") {
  CHECK(SqueueCommand({"1", "22"}).back() == "--jobs=1,22");
  const auto jobs =
      ParseSqueue("1|RUNNING|3|n[1-3]\n22|PENDING|3|(Dependency)\nnoise\n4|FAILED|x|\n");
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].id == "1");
  CHECK(jobs[0].nodes == 3);
  CHECK(jobs[1].state == "PENDING");
  CHECK(jobs[1].where == "(Dependency)");
  CHECK(jobs[2].nodes == 0);
  CHECK(IsLive(jobs[0]));
  CHECK(IsLive(jobs[1]));
  CHECK(!IsLive(jobs[2]));
  CHECK(IsLive({"1", "COMPLETING"}));
}

TEST_CASE("slurm: nodes with enough memory") {
  CHECK(SinfoCommand("big").back() == "--partition=big");
  const auto check = [](int64_t nodes, int64_t spare, int64_t mib) {
    const absl::Status status =
        CheckRoom("3|2000\n1|64000+\nnoise\n", {.nodes = nodes, .spare_nodes = spare}, mib << 20);
    return std::string(ToStd(status.message()));
  };
  CHECK(check(3, 1, 2000) == "");
  CHECK(check(4, 1, 1).find("--nodes=4 --spare_nodes=1: Slurm has 4 nodes, not 5, with the 1 MiB "
                            "that a node's processes need") == 0);
  CHECK(check(1, 1, 2001).find("has 1 nodes, not 2, ") != std::string::npos);
  CHECK(check(1, 0, 64'001).find("its largest has 64000 MiB; ask ") != std::string::npos);
  // sbatch says what is wrong with a partition that has no nodes.
  CHECK(CheckRoom("", {.nodes = 5}, 1 << 20).ok());
}

TEST_CASE("engine: the state of a job in a word") {
  const SlurmJob running = {"1", "RUNNING"}, pending = {"2", "PENDING"}, failed = {"1", "FAILED"};
  const nlohmann::ordered_json done = {{"state", "done"}}, foreign = {{"state", 7}};
  using Jobs = std::vector<SlurmJob>;
  CHECK(DescribeState(Jobs{running, pending}, std::nullopt, false) == "running");
  CHECK(DescribeState(Jobs{running, pending}, std::nullopt, true) == "running");
  CHECK(DescribeState(Jobs{failed, pending}, std::nullopt, false) == "queued");
  CHECK(DescribeState(Jobs{failed}, std::nullopt, false) == "stopped");
  CHECK(DescribeState(Jobs{failed}, std::nullopt, true) == "cancelled");
  CHECK(DescribeState(Jobs{}, done, true) == "done");
  CHECK(DescribeState(Jobs{}, foreign, false) == "stopped");
  CHECK(DescribeState(std::nullopt, std::nullopt, true) == "unknown");
  CHECK(DescribeState(std::nullopt, done, true) == "done");
}

}  // namespace
}  // namespace oneflow
