#include "tools/oneflow/job/job_spec.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "tools/oneflow/job/command.h"

namespace oneflow {
namespace {

constexpr std::array<std::pair<std::string_view, Engine>, 3> kEngines = {
    {{"slurm", Engine::kSlurm}, {"local", Engine::kLocal}, {"kubernetes", Engine::kKubernetes}}};

constexpr int64_t kMostNodes = 100'000;

absl::Status CheckRange(std::string_view flag, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InputError(absl::StrCat("--", ToAbsl(flag), "=", value), "is out of range",
                    absl::StrCat("use at least ", least, " and at most ", most));
}

// A directive of Slurm is a line; the script's others are words of a shell, which hold anything.
absl::Status CheckLine(std::string_view flag, const std::string& text) {
  if (std::none_of(text.begin(), text.end(), absl::ascii_iscntrl)) return absl::OkStatus();
  return InputError(absl::StrCat("--", ToAbsl(flag), "=", absl::CHexEscape(text)),
                    "has characters that a job's script cannot hold", "use none of control");
}

// sbatch itself checks its options. These are good ones, with which a job directory is not what it
// should be.
struct Refused {
  std::string_view name, why, hint;
};
constexpr std::array<Refused, 3> kRefused = {{
    {"array", "makes several jobs of one", "submit each with its own --job_dir"},
    {"clusters", "starts a job that `oneflow status` does not find", "submit it on that cluster"},
    {"wait", "keeps `submit` until the job has ended", "wait by `oneflow status`"},
}};

absl::Status CheckSbatchOption(const std::string& option) {
  RETURN_IF_ERROR(CheckLine("sbatch_option", option));
  const std::string where = "--sbatch_option=" + option;
  if (!option.starts_with("--")) {
    return InputError(where, "is no long option of sbatch",
                      "write it as one word: --sbatch_option=--account=mine");
  }
  const std::string name = option.substr(2, option.find('=') - 2);
  for (const Refused& refused : kRefused) {
    // sbatch, too, takes the beginning of a name for it.
    if (name.size() < 2 || !refused.name.starts_with(name)) continue;
    return InputError(where,
                      absl::StrCat("sbatch's --", ToAbsl(refused.name), " ", ToAbsl(refused.why)),
                      refused.hint);
  }
  return absl::OkStatus();
}

// Times that sbatch takes for minutes; the script looks at what Slurm makes of all others.
absl::Status CheckTime(const JobSpec& spec) {
  int64_t minutes = 0;
  if (!absl::SimpleAtoi(spec.time, &minutes) || minutes <= 0) return absl::OkStatus();
  if (minutes > spec.signal_seconds / 60) return absl::OkStatus();
  return InputError(
      "--time=" + spec.time,
      absl::StrCat("is no more than the ", spec.signal_seconds, " seconds in which a job ends"),
      "give more minutes, hours:minutes:seconds or days-hours, or fewer --signal_seconds");
}

constexpr std::string_view kLoop =
#include "tools/oneflow/job/loop_sh.inc"
    ;
constexpr std::string_view kSlurm =
#include "tools/oneflow/job/slurm_sh.inc"
    ;
constexpr std::string_view kLocal =
#include "tools/oneflow/job/local_sh.inc"
    ;

bool AsksForGpus(const std::string& option) {
  return option.starts_with("--gres=") || option.starts_with("--gpus") ||
         option.starts_with("--tres");
}

// sbatch takes the last of options that are given twice: the user's win over what is only usual,
// and what the script relies on wins over the user's. sbatch reads words as a shell does.
std::string Directives(const JobSpec& spec) {
  const auto& given = spec.sbatch_options;
  std::vector<std::string> options = {absl::StrCat("--job-name=", spec.name())};
  if (spec.cpus_per_process == 0) options.insert(options.end(), {"--exclusive", "--mem=0"});
  if (spec.gpus > 0 && std::none_of(given.begin(), given.end(), AsksForGpus)) {
    options.push_back(absl::StrCat("--gres=gpu:", spec.gpus * spec.processes_per_node));
  }
  options.insert(options.end(), given.begin(), given.end());
  if (!spec.partition.empty()) options.push_back("--partition=" + spec.partition);
  if (!spec.time.empty()) options.push_back("--time=" + spec.time);
  if (spec.cpus_per_process > 0) {
    options.push_back(absl::StrCat("--cpus-per-task=", spec.cpus_per_process));
  }
  options.insert(
      options.end(),
      {absl::StrCat("--nodes=", spec.nodes + spec.spare_nodes),
       absl::StrCat("--ntasks-per-node=", spec.processes_per_node), "--no-kill", "--no-requeue",
       absl::StrCat("--signal=TERM@", spec.signal_seconds), "--open-mode=append",
       absl::StrCat("--output=", absl::StrReplaceAll(spec.job_dir, {{"%", "%%"}}),
                    "/logs/slurm-%j.log")});
  std::string text;
  for (const std::string& option : options) {
    absl::StrAppend(&text, "#SBATCH ", ShellQuoted(option), "\n");
  }
  return text;
}

// The lines `name=(...)`, a word a line.
std::string ShellArray(std::string_view name, const std::vector<std::string>& words) {
  std::string text = absl::StrCat(ToAbsl(name), "=(\n");
  for (const std::string& word : words) absl::StrAppend(&text, "  ", ShellQuoted(word), "\n");
  return text + ")\n";
}

}  // namespace

absl::StatusOr<Engine> ParseEngine(std::string_view text) {
  for (const auto& [name, engine] : kEngines) {
    if (name == text) return engine;
  }
  return InputError(absl::StrCat("--engine=", ToAbsl(text)), "no such engine",
                    "there are slurm, local and kubernetes");
}

std::string_view EngineName(Engine engine) {
  for (const auto& [name, value] : kEngines) {
    if (value == engine) return name;
  }
  return "";
}

std::string JobSpec::name() const {
  return absl::StrCat("oneflow-", job_dir.substr(job_dir.rfind('/') + 1));
}

absl::StatusOr<int64_t> LargestHostBytes(const proto::Plan& plan, int64_t groups) {
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh()));
  const int stages = StageCount(plan);
  const int64_t ranks = mesh.devices() / groups;
  int64_t largest = 0;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t bytes = 0;
    for (int64_t rank = group * ranks; rank < (group + 1) * ranks; ++rank) {
      const int stage = mesh.RankToStage(static_cast<int>(rank));
      bytes += HostArenaBytes(plan, stage);
      if (plan.device_kind() != proto::CPU) continue;
      bytes += plan.memory(ArenaIndex(proto::DEVICE, stage, stages)).arena_bytes();
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

absl::StatusOr<int64_t> CountGpus(const proto::Plan& plan, int64_t processes, bool shared) {
  if (plan.device_kind() != proto::CUDA) return 0;
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh()));
  return shared ? 1 : mesh.devices() / processes;
}

absl::Status CheckNetwork(const JobSpec& spec) {
  if (!spec.run.trust_network().empty()) {
    const absl::Status parsed = IsInNetwork("", spec.run.trust_network()).status();
    if (!parsed.ok()) {
      return InputError("--trust_network=" + spec.run.trust_network(), "is no network",
                        "give addresses, and how many bits are the network's: 10.1.0.0/16");
    }
  }
  const int64_t hosts = spec.engine == Engine::kSlurm        ? spec.nodes
                        : spec.engine == Engine::kKubernetes ? spec.processes()
                                                             : 1;
  if (hosts == 1 || !spec.run.interface().empty() || !spec.run.trust_network().empty()) {
    return absl::OkStatus();
  }
  return InputError(
      "--trust_network",
      absl::StrCat("is missing: the processes of ", hosts,
                   spec.engine == Engine::kSlurm ? " nodes" : " pods", " meet beyond loopback"),
      "name the network that tensors may cross, unprotected, by "
      "--trust_network=CIDR or --interface=DEVICE");
}

absl::Status CheckSpec(const JobSpec& spec, const proto::Plan& plan) {
  RETURN_IF_ERROR(CheckRange("nodes", spec.nodes, 1, kMostNodes));
  RETURN_IF_ERROR(CheckRange("spare_nodes", spec.spare_nodes, 0, kMostNodes));
  RETURN_IF_ERROR(CheckRange("processes_per_node", spec.processes_per_node, 1, 1024));
  RETURN_IF_ERROR(CheckRange("max_restarts", spec.max_restarts, 0, 1'000'000));
  RETURN_IF_ERROR(CheckRange("max_jobs", spec.max_jobs, 1, 1000));
  RETURN_IF_ERROR(CheckRange("signal_seconds", spec.signal_seconds, 1, 65'535));
  RETURN_IF_ERROR(CheckRange("cpus_per_process", spec.cpus_per_process, 0, 1 << 20));
  RETURN_IF_ERROR(CheckLine("job_dir", spec.job_dir));
  RETURN_IF_ERROR(CheckLine("partition", spec.partition));
  RETURN_IF_ERROR(CheckLine("time", spec.time));
  RETURN_IF_ERROR(CheckTime(spec));
  for (const std::string& option : spec.sbatch_options) RETURN_IF_ERROR(CheckSbatchOption(option));
  if (spec.job_dir.find('\\') != spec.job_dir.npos) {
    return InputError("--job_dir=" + spec.job_dir, "has a backslash",
                      "name another folder: in the name of a log it turns off Slurm's %j");
  }
  if (spec.engine == Engine::kLocal && (spec.nodes > 1 || spec.spare_nodes > 0)) {
    return InputError(absl::StrCat("--nodes=", spec.nodes, " --spare_nodes=", spec.spare_nodes),
                      "the local engine has one node",
                      "leave --nodes and --spare_nodes out, or use --engine=slurm");
  }
  if (spec.engine == Engine::kKubernetes && (spec.image.empty() || spec.volume_claim.empty())) {
    return InputError(spec.image.empty() ? "--image" : "--volume_claim", "is missing",
                      "name the image that holds oneflow, and the claim of the volume on which "
                      "--job_dir and --data lie");
  }
  RETURN_IF_ERROR(CheckNetwork(spec));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh()));
  if (mesh.devices() % spec.processes() != 0) {
    return InputError(
        absl::StrCat("--nodes=", spec.nodes, " --processes_per_node=", spec.processes_per_node),
        absl::StrCat("the plan's ", mesh.devices(), " ranks do not divide evenly among ",
                     spec.processes(), " processes"),
        absl::StrCat("choose a number of processes that divides ", mesh.devices(),
                     ", or compile for another --mesh"));
  }
  return absl::OkStatus();
}

proto::Run RunOfJob(const JobSpec& spec) {
  proto::Run run = spec.run;
  run.set_job_dir(spec.job_dir);
  run.set_metrics(spec.job_dir + "/metrics.jsonl");
  run.set_checkpoint_dir(spec.job_dir + "/checkpoints");
  run.set_resume("auto");
  const bool starts_others = spec.engine == Engine::kLocal && spec.processes() > 1;
  if (starts_others) run.set_processes(static_cast<int32_t>(spec.processes()));
  return run;
}

std::vector<std::string> TrainCommand(const JobSpec& spec) {
  std::vector<std::string> words = {spec.oneflow, "train", "--plan=" + spec.job_dir + "/job.plan"};
  const proto::Run run = RunOfJob(spec);
  for (const auto& flags :
       {FlagWords(RunRows(), run), FlagWords(OptimizerRows(), run.optimizer())}) {
    words.insert(words.end(), flags.begin(), flags.end());
  }
  return words;
}

std::string MakeScript(const JobSpec& spec) {
  const bool slurm = spec.engine == Engine::kSlurm;
  std::string text = "#!/bin/bash\n";
  if (slurm) text += Directives(spec);
  absl::StrAppend(&text,
                  "#\n# Written by `oneflow submit`; docs/operations.md says how it is used.\n"
                  "set -u\ncd ",
                  ShellQuoted(spec.folder),
                  " || echo \"oneflow: goes on in $PWD\"\n\njob_dir=", ShellQuoted(spec.job_dir),
                  "\nmax_restarts=", spec.max_restarts, "\n");
  if (slurm) {
    const std::vector<std::string> step = {
        absl::StrCat("--nodes=", spec.nodes), absl::StrCat("--ntasks=", spec.processes()),
        absl::StrCat("--ntasks-per-node=", spec.processes_per_node)};
    if (spec.cpus_per_process > 0) {
      absl::StrAppend(&text, "cpus_per_process=", spec.cpus_per_process, "\n");
    }
    absl::StrAppend(&text, "nodes=", spec.nodes, "\nprocesses_per_node=", spec.processes_per_node,
                    "\nsignal_seconds=", spec.signal_seconds, "\n", ShellArray("step", step));
  }
  absl::StrAppend(&text, ShellArray("train", TrainCommand(spec)), ToAbsl(slurm ? kSlurm : kLocal),
                  ToAbsl(kLoop));
  return text;
}

}  // namespace oneflow
