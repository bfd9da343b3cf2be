#include "tools/oneflow/job/job_spec.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "tools/oneflow/job/command.h"
#include "tools/oneflow/job/engine_syntax.h"

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

// A directive of Slurm is a line, and in the name of a log a backslash turns off its %j.
absl::Status CheckPath(std::string_view flag, const std::string& path) {
  const auto is_foreign = [](char c) { return c == '\\' || absl::ascii_iscntrl(c); };
  if (std::none_of(path.begin(), path.end(), is_foreign)) return absl::OkStatus();
  return InputError(absl::StrCat("--", ToAbsl(flag), "=", absl::CHexEscape(path)),
                    "has characters that a job's script cannot hold",
                    "use none of control and no backslash");
}

absl::Status CheckPartition(const std::string& name) {
  if (name.empty() || ShellQuoted(name) == name) return absl::OkStatus();
  return InputError("--partition=" + absl::CHexEscape(name), "is no name of a partition",
                    "use letters, digits and _-+=./,:@ alone");
}

absl::Status CheckOneLine(std::string_view flag, const std::string& value) {
  if (value.find_first_of("\n\r") == value.npos) return absl::OkStatus();
  return InputError(absl::StrCat("--", ToAbsl(flag)), "has more than one line");
}

// A limit that leaves time for more than the signal before it.
absl::Status CheckTime(const JobSpec& spec) {
  if (spec.time.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<int64_t> seconds, ParseSlurmTime("time", spec.time));
  if (!seconds || *seconds > spec.signal_seconds) return absl::OkStatus();
  return InputError(
      "--time=" + spec.time,
      absl::StrCat("is no more than the ", spec.signal_seconds, " seconds in which a job ends"),
      "give more time, or fewer --signal_seconds");
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

// A word of a directive, as sbatch reads it: a space parts words, and # begins a comment.
std::string SbatchQuoted(const std::string& word) {
  if (ShellQuoted(word) == word) return word;
  return absl::StrCat("\"", absl::StrReplaceAll(word, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::string Directive(const std::string& text) {
  std::string words;
  for (const auto& [head, value] : SplitSbatchOptions(text)) {
    absl::StrAppend(&words, words.empty() ? "" : " ", SbatchQuoted(head));
    if (!value.empty()) absl::StrAppend(&words, " ", SbatchQuoted(value));
  }
  return words;
}

std::string Directives(const JobSpec& spec) {
  std::vector<std::string> options = {
      absl::StrCat("--job-name=", spec.name()),
      absl::StrCat("--nodes=", spec.nodes + spec.spare_nodes),
      absl::StrCat("--ntasks-per-node=", spec.processes_per_node),
      "--no-kill",
      "--no-requeue",
      absl::StrCat("--signal=TERM@", spec.signal_seconds),
      "--open-mode=append",
      absl::StrCat("--output=", absl::StrReplaceAll(spec.job_dir, {{"%", "%%"}}),
                   "/logs/slurm-%j.log")};
  if (spec.cpus_per_process > 0) {
    options.push_back(absl::StrCat("--cpus-per-task=", spec.cpus_per_process));
  } else {
    options.insert(options.end(), {"--exclusive", "--mem=0"});
  }
  if (!spec.partition.empty()) options.push_back("--partition=" + spec.partition);
  if (!spec.time.empty()) options.push_back("--time=" + spec.time);
  const auto& given = spec.sbatch_options;
  if (spec.gpus > 0 && std::none_of(given.begin(), given.end(), AsksForGpus)) {
    options.push_back(absl::StrCat("--gres=gpu:", spec.gpus * spec.processes_per_node));
  }
  std::string text;
  for (const std::string& option : options) {
    absl::StrAppend(&text, "#SBATCH ", SbatchQuoted(option), "\n");
  }
  for (const std::string& option : given) {
    absl::StrAppend(&text, "#SBATCH ", Directive(option), "\n");
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
  if (!spec.trust_network.empty()) {
    const absl::Status parsed = IsInNetwork("", spec.trust_network).status();
    if (!parsed.ok()) {
      return InputError("--trust_network=" + spec.trust_network, "is no network",
                        "give addresses, and how many bits are the network's: 10.1.0.0/16");
    }
  }
  const int64_t hosts = spec.engine == Engine::kSlurm        ? spec.nodes
                        : spec.engine == Engine::kKubernetes ? spec.processes()
                                                             : 1;
  if (hosts == 1 || !spec.interface.empty() || !spec.trust_network.empty()) {
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
  RETURN_IF_ERROR(CheckPath("job_dir", spec.job_dir));
  RETURN_IF_ERROR(CheckPath("oneflow", spec.oneflow));
  RETURN_IF_ERROR(CheckPartition(spec.partition));
  RETURN_IF_ERROR(CheckTime(spec));
  for (const std::string& option : spec.sbatch_options) RETURN_IF_ERROR(CheckSbatchOption(option));
  for (const std::string& word : spec.train) RETURN_IF_ERROR(CheckOneLine("train's flags", word));
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
  if (!spec.image.empty()) RETURN_IF_ERROR(CheckImage("image", spec.image));
  if (!spec.volume_claim.empty()) {
    RETURN_IF_ERROR(CheckDnsName("volume_claim", spec.volume_claim));
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

std::vector<std::string> TrainCommand(const JobSpec& spec) {
  std::vector<std::string> words = {spec.oneflow, "train", "--plan=" + spec.job_dir + "/job.plan"};
  words.insert(words.end(), spec.train.begin(), spec.train.end());
  words.insert(words.end(),
               {"--job_dir=" + spec.job_dir, "--metrics=" + spec.job_dir + "/metrics.jsonl",
                "--checkpoint_dir=" + spec.job_dir + "/checkpoints", "--resume=auto"});
  if (spec.engine == Engine::kLocal && spec.processes() > 1) {
    words.push_back(absl::StrCat("--processes=", spec.processes()));
  }
  return words;
}

std::string MakeScript(const JobSpec& spec) {
  const bool slurm = spec.engine == Engine::kSlurm;
  std::string text = "#!/bin/bash\n";
  if (slurm) text += Directives(spec);
  absl::StrAppend(&text,
                  "#\n# Written by `oneflow submit`; docs/operations.md says how it is used.\n"
                  "set -u\n\njob_dir=",
                  ShellQuoted(spec.job_dir), "\nmax_restarts=", spec.max_restarts, "\n");
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
