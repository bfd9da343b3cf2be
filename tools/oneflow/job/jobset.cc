#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/strings.h"
#include "tools/oneflow/job/command.h"
#include "tools/oneflow/job/job_spec.h"

namespace oneflow {
namespace {

// Memory of one process beside its arenas: code, data that is read, the transport.
constexpr int64_t kBesideArenas = int64_t{1} << 30;

// Names of Kubernetes: letters in lower case, digits and "-".
std::string KubernetesName(const JobSpec& spec) {
  std::string name;
  for (const char c : spec.name()) {
    const char low = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool plain = (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9');
    if (plain || (!name.empty() && name.back() != '-')) name += plain ? low : '-';
  }
  name.resize(std::min<size_t>(name.size(), 40));  // of 63, pods append their indices
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

// YAML reads strings of JSON.
std::string Quoted(const std::string& text) { return JsonText(nlohmann::json(text)); }

// The script of a pod, whose variables are the pod's environment.
std::string PodScript(const JobSpec& spec) {
  const std::string text =
      absl::StrCat("cd ", ShellQuoted(spec.folder), "; ONEFLOW_ATTEMPT=$((", spec.first_attempt,
                   " + JOBSET_RESTART_ATTEMPT)) exec ", CommandText(TrainCommand(spec)));
  // Kubernetes expands $(NAME) before the shell sees it; "$$" stands for "$".
  return absl::StrReplaceAll(text, {{"$", "$$"}});
}

// The folder that the volume is mounted at: the first of the job's path.
std::string MountPath(const JobSpec& spec) {
  const size_t first = spec.job_dir.find('/', 1);
  return spec.job_dir.substr(0, first);
}

}  // namespace

std::string MakeJobSet(const JobSpec& spec) {
  constexpr std::string_view kManifest =
#include "tools/oneflow/job/jobset_yaml.inc"
      ;
  const std::string cpu =
      spec.cpus_per_process > 0 ? absl::StrCat(", cpu: ", spec.cpus_per_process) : "";
  return absl::StrReplaceAll(
      ToAbsl(kManifest),
      {{"@name@", KubernetesName(spec)},
       {"@max_restarts@", absl::StrCat(spec.max_restarts)},
       {"@processes@", absl::StrCat(spec.processes())},
       {"@signal_seconds@", absl::StrCat(spec.signal_seconds)},
       {"@image@", Quoted(spec.image)},
       {"@script@", Quoted(PodScript(spec))},
       {"@memory@", absl::StrCat(((spec.memory_bytes + kBesideArenas) >> 20) + 1)},
       {"@cpu@", cpu},
       {"@limits@", spec.gpus == 0 ? ""
                                   : absl::StrCat("\n                    limits: {nvidia.com/gpu: ",
                                                  spec.gpus, "}")},
       {"@mount@", Quoted(MountPath(spec))},
       {"@volume_claim@", Quoted(spec.volume_claim)}});
}

}  // namespace oneflow
