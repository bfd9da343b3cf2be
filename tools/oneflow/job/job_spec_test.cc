#include "tools/oneflow/job/job_spec.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <string>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

proto::Plan MakePlan(const std::vector<std::pair<std::string, int>>& axes,
                     const std::vector<int64_t>& arena_bytes) {
  proto::Plan plan;
  plan.set_device_kind(proto::CPU);
  for (const auto& [name, size] : axes) {
    auto* axis = plan.mutable_mesh()->add_axis();
    axis->set_name(name);
    axis->set_size(size);
  }
  for (const int64_t bytes : arena_bytes) plan.add_memory()->set_arena_bytes(bytes);
  return plan;
}

proto::Run ParseRun(const std::string& text) {
  proto::Run run;
  REQUIRE(ParseText(text, "run", "run", &run).ok());
  return run;
}

JobSpec SlurmSpec() {
  return {
      .engine = Engine::kSlurm,
      .nodes = 4,
      .spare_nodes = 1,
      .processes_per_node = 2,
      .job_dir = "/scratch/runs/gpt",
      .folder = "/home/me/it's",
      .oneflow = "/opt/oneflow/bin/oneflow",
      .run = ParseRun("data: \"it's text.txt\" steps: 2000 checkpoint_every: 100 interface: 'ib0'"),
      .max_restarts = 5,
      .max_jobs = 3,
      .partition = "gpu",
      .time = "1-12:00:00",
      .sbatch_options = {"--account=mine"},
      .gpus = 4};
}

JobSpec LocalSpec() {
  JobSpec spec = SlurmSpec();
  spec.engine = Engine::kLocal;
  spec.nodes = 1;
  spec.spare_nodes = 0;
  return spec;
}

JobSpec KubernetesSpec() {
  JobSpec spec = SlurmSpec();
  spec.engine = Engine::kKubernetes;
  spec.oneflow = "oneflow";
  spec.job_dir = "/scratch/runs/GPT_2.a";
  spec.image = "registry.example.com/oneflow:1";
  spec.volume_claim = "scratch";
  spec.memory_bytes = int64_t{3} << 30;
  spec.cpus_per_process = 8;
  spec.first_attempt = 7;
  return spec;
}

std::string ReadSource(const std::string& name) {
  return ReadFile("tools/oneflow/job/" + name).value();
}

// Compares with a file of testdata/; with ONEFLOW_GOLDEN_UPDATE, the folder in the checkout, writes
// it.
void CheckGolden(const std::string& name, const std::string& text) {
  if (const char* folder = std::getenv("ONEFLOW_GOLDEN_UPDATE")) {
    REQUIRE(WriteFile(std::string(folder) + "/" + name, text).ok());
  }
  CHECK(text == ReadSource("testdata/" + name));
}

// A script up to the parts that are the same in all.
std::string Beginning(const std::string& script, const std::string& part) {
  const std::string rest = ReadSource(part) + ReadSource("loop.sh");
  REQUIRE(script.ends_with(rest));
  return script.substr(0, script.size() - rest.size());
}

TEST_CASE("job_spec: scripts and the manifest are as expected") {
  CheckGolden("slurm_begin.sh", Beginning(MakeScript(SlurmSpec()), "slurm.sh"));
  CheckGolden("local_begin.sh", Beginning(MakeScript(LocalSpec()), "local.sh"));
  CheckGolden("jobset.yaml", MakeJobSet(KubernetesSpec()));
}

TEST_CASE("job_spec: cores of a process that are given are asked of Slurm") {
  JobSpec spec = SlurmSpec();
  spec.cpus_per_process = 8;
  const std::string script = MakeScript(spec);
  CHECK(script.find("#SBATCH --cpus-per-task=8\n") != script.npos);
  CHECK(script.find("\ncpus_per_process=8\n") != script.npos);
  CHECK(script.find("--exclusive") == script.npos);
}

TEST_CASE("job_spec: GPUs are asked for, one a rank") {
  proto::Plan plan = MakePlan({{"data", 8}}, {1, 1});
  CHECK(*CountGpus(plan, 2, false) == 0);
  plan.set_device_kind(proto::CUDA);
  CHECK(*CountGpus(plan, 2, false) == 4);
  CHECK(*CountGpus(plan, 1, true) == 1);
  JobSpec spec = SlurmSpec();
  CHECK(MakeScript(spec).find("#SBATCH --gres=gpu:8\n") != std::string::npos);
  spec.sbatch_options = {"--gpus-per-node=a100:8"};
  CHECK(MakeScript(spec).find("--gres") == std::string::npos);
  spec.sbatch_options.clear();
  spec.gpus = 0;
  CHECK(MakeScript(spec).find("--gres") == std::string::npos);
  JobSpec pods = KubernetesSpec();
  CHECK(MakeJobSet(pods).find("\n                    limits: {nvidia.com/gpu: 4}\n") !=
        std::string::npos);
  pods.gpus = 0;
  CHECK(MakeJobSet(pods).find("limits") == std::string::npos);
}

TEST_CASE("job_spec: a folder may have spaces, quotes and letters beyond ASCII") {
  const proto::Plan plan = MakePlan({{"data", 8}}, {1000});
  JobSpec spec = SlurmSpec();
  spec.job_dir = "/scratch/gr\u00f6\u00dfe \"50%\" $HOME/it's";
  spec.oneflow = "/opt/one flow";
  REQUIRE(CheckSpec(spec, plan).ok());
  const std::string script = MakeScript(spec);
  for (const char* line :
       {"\n#SBATCH '--job-name=oneflow-it'\\''s'\n",
        "\n#SBATCH '--output=/scratch/gr\u00f6\u00dfe \"50%%\" "
        "$HOME/it'\\''s/logs/slurm-%j.log'\n",
        "\njob_dir='/scratch/gr\u00f6\u00dfe \"50%\" $HOME/it'\\''s'\n", "\n  '/opt/one flow'\n",
        "\n  '--job_dir=/scratch/gr\u00f6\u00dfe \"50%\" $HOME/it'\\''s'\n"}) {
    INFO(line);
    CHECK(script.find(line) != script.npos);
  }
  JobSpec pods = KubernetesSpec();
  pods.job_dir = "/my $$volume/a: #b";
  REQUIRE(CheckSpec(pods, plan).ok());
  const std::string manifest = MakeJobSet(pods);
  CHECK(manifest.find("mountPath: \"/my $$volume\"}") != manifest.npos);
  CHECK(manifest.find("'--job_dir=/my $$$$volume/a: #b'") != manifest.npos);
}

TEST_CASE("job_spec: an option of sbatch is one word, before those that the script relies on") {
  JobSpec spec = SlurmSpec();
  const proto::Plan plan = MakePlan({{"data", 8}}, {1000});
  for (const auto& [option, line] : std::vector<std::pair<std::string, std::string>>{
           {"--comment=a;rm -rf x", "'--comment=a;rm -rf x'"},
           {"--comment=a -n 3 #\\ \"'", "'--comment=a -n 3 #'\\\\' \"'\\'''"},
           {"--output=x", "--output=x"},
           {"--wait-all-nodes=1", "--wait-all-nodes=1"}}) {
    spec.sbatch_options = {option};
    INFO(option);
    CHECK(CheckSpec(spec, plan).ok());
    const std::string script = MakeScript(spec);
    const size_t at = script.find("\n#SBATCH " + line + "\n");
    REQUIRE(at != script.npos);
    CHECK(at < script.find("\n#SBATCH --output=/scratch"));
    CHECK(at > script.find("\n#SBATCH --mem=0"));
  }
}

TEST_CASE("job_spec: what $( begins in a flag is no variable of Kubernetes") {
  JobSpec spec = KubernetesSpec();
  spec.run.set_data("/scratch/$(HOME).txt");
  CHECK(MakeJobSet(spec).find("'--data=/scratch/$$(HOME).txt'") != std::string::npos);
}

TEST_CASE("job_spec: refusals name the flag and the correction") {
  const proto::Plan plan = MakePlan({{"data", 8}}, {1000});
  const auto refused = [&](const std::function<void(JobSpec&)>& change, const std::string& words) {
    JobSpec spec = SlurmSpec();
    change(spec);
    const absl::Status status = CheckSpec(spec, plan);
    CHECK(ExitCode(status) == 2);
    const std::string message(ToStd(status.message()));
    INFO(message);
    CHECK(message.find(words) != message.npos);
  };
  CHECK(CheckSpec(SlurmSpec(), plan).ok());
  CHECK(CheckSpec(KubernetesSpec(), plan).ok());
  refused([](JobSpec& s) { s.nodes = 0; }, "--nodes=0: is out of range; use at least 1");
  refused([](JobSpec& s) { s.nodes = 3; },
          "--nodes=3 --processes_per_node=2: the plan's 8 ranks do not divide evenly among 6 "
          "processes; choose a number of processes that divides 8");
  refused([](JobSpec& s) { s.nodes = 8; }, "8 ranks do not divide evenly among 16 processes");
  refused([](JobSpec& s) { s.spare_nodes = -1; }, "--spare_nodes=-1");
  refused([](JobSpec& s) { s.signal_seconds = 0; }, "--signal_seconds=0");
  refused([](JobSpec& s) { s.max_restarts = -1; }, "--max_restarts=-1");
  refused([](JobSpec& s) { s.job_dir = "/a\nb"; }, "--job_dir=/a\\nb: has characters");
  refused([](JobSpec& s) { s.job_dir = "/a\\b"; }, "--job_dir=/a\\b: has a backslash");
  refused([](JobSpec& s) { s.time = "2"; },
          "--time=2: is no more than the 120 seconds in which a job ends");
  for (const auto& [option, words] : std::vector<std::pair<std::string, std::string>>{
           {"--array=0-3", "sbatch's --array makes several jobs of one; submit each"},
           {"--arr=0-3", "sbatch's --array"},
           {"--ar", "sbatch's --array"},
           {"--clusters=b", "sbatch's --clusters starts a job that"},
           {"--wait", "sbatch's --wait keeps"}}) {
    refused([&](JobSpec& s) { s.sbatch_options = {option}; },
            "--sbatch_option=" + option + ": " + words);
  }
  refused([](JobSpec& s) { s.run.clear_interface(); },
          "--trust_network: is missing: the processes of 4 nodes meet beyond loopback; name the "
          "network");
  refused([](JobSpec& s) { s.run.set_trust_network("10.1.0.0/99"); },
          "--trust_network=10.1.0.0/99: is no network");
  refused([](JobSpec& s) { s.sbatch_options = {"mine"}; }, "is no long option of sbatch");
  refused([](JobSpec& s) { s.sbatch_options = {"-a0-3"}; }, "is no long option of sbatch");
  refused([](JobSpec& s) { s.sbatch_options = {"--a=\n#SBATCH --array=1"}; },
          "--sbatch_option=--a=\\n#SBATCH --array=1: has characters");
  refused([](JobSpec& s) { s.processes_per_node = 0; }, "--processes_per_node=0: is out of range");
  refused([](JobSpec& s) { s.max_jobs = 1001; }, "--max_jobs=1001: is out of range");
  refused([](JobSpec& s) { s.cpus_per_process = -1; }, "--cpus_per_process=-1: is out of range");
  refused([](JobSpec& s) { s.time = "1\r"; }, "--time=1\\r: has characters");
  refused([](JobSpec& s) { s.partition = "a\n#"; }, "--partition=a\\n#: has characters");
  refused([](JobSpec& s) { s.engine = Engine::kLocal; }, "the local engine has one node");
  refused(
      [](JobSpec& s) {
        s.engine = Engine::kLocal;
        s.nodes = 1;
      },
      "--nodes=1 --spare_nodes=1: the local engine has one node");
  refused([](JobSpec& s) { s.engine = Engine::kKubernetes; }, "--image: is missing");
  refused(
      [](JobSpec& s) {
        s.engine = Engine::kKubernetes;
        s.image = "i";
      },
      "--volume_claim: is missing");
  refused(
      [](JobSpec& s) {
        s = KubernetesSpec();
        s.run.clear_interface();
      },
      "the processes of 8 pods meet beyond loopback");
  // One node's processes meet on loopback.
  JobSpec one = SlurmSpec();
  one.nodes = 1;
  one.run.clear_interface();
  CHECK(CheckSpec(one, plan).ok());
}

TEST_CASE("job_spec: the memory of a node is that of its ranks' stages") {
  // Ranks 0 to 3 are of stage 0, 4 to 7 of stage 1.
  const proto::Plan plan = MakePlan({{"pipe", 2}, {"data", 4}}, {100, 7});
  CHECK(*LargestHostBytes(plan, 1) == 428);
  CHECK(*LargestHostBytes(plan, 2) == 400);
  CHECK(*LargestHostBytes(plan, 8) == 100);
  // On GPUs a host has what is pinned.
  proto::Plan cuda = MakePlan({{"pipe", 2}, {"data", 4}}, {100, 7, 20, 30});
  cuda.set_device_kind(proto::CUDA);
  for (const int arena : {2, 3}) cuda.mutable_memory(arena)->set_kind(proto::HOST);
  CHECK(*LargestHostBytes(cuda, 2) == 120);
  // CPU devices have theirs beside it.
  proto::Plan both = cuda;
  both.set_device_kind(proto::CPU);
  CHECK(*LargestHostBytes(both, 2) == 4 * (100 + 20));
}

TEST_CASE("job_spec: engines have names") {
  for (const Engine engine : {Engine::kSlurm, Engine::kLocal, Engine::kKubernetes}) {
    CHECK(*ParseEngine(EngineName(engine)) == engine);
  }
  CHECK(!ParseEngine("").ok());
}

}  // namespace
}  // namespace oneflow
