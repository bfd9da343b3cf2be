#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "tools/oneflow/job/command.h"
#include "tools/oneflow/job/job_spec.h"

namespace oneflow {
namespace {

constexpr int kPort = 29500;

// What one process holds beside its arenas: code, data that is read, the transport.
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

// The script of a pod: its variables are the pod's environment.
std::string PodScript(const JobSpec& spec) {
  std::string text = absl::StrCat("export ONEFLOW_ATTEMPT=$((", spec.first_attempt,
                                  " + JOBSET_RESTART_ATTEMPT))\nexec ");
  absl::StrAppend(&text, CommandText(TrainCommand(spec)));
  if (spec.processes() > 1) {
    absl::StrAppend(&text, " --coordinator=\"$ONEFLOW_COORDINATOR\" --processes=", spec.processes(),
                    " --process_index=\"$JOB_COMPLETION_INDEX\"");
  }
  // Kubernetes expands $(NAME) before the shell sees it; "$$(" stands for "$(".
  return absl::StrReplaceAll(text, {{"$(", "$$("}});
}

// The folder that the volume is mounted at: the first two names of the path of the job.
std::string MountOf(const JobSpec& spec) {
  const size_t first = spec.job_dir.find('/', 1);
  return spec.job_dir.substr(0, first);
}

}  // namespace

std::string JobSetOf(const JobSpec& spec) {
  const std::string name = KubernetesName(spec);
  std::string script;
  const std::string pod_script = PodScript(spec);
  for (size_t begin = 0; begin < pod_script.size();) {
    const size_t end = std::min(pod_script.find('\n', begin), pod_script.size());
    absl::StrAppend(&script, "                    ", pod_script.substr(begin, end - begin), "\n");
    begin = end + 1;
  }
  std::string text = "# Written by `oneflow submit`; docs/operations.md says how it is used.\n";
  absl::StrAppend(&text,
                  "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: ", name,
                  "\nspec:\n");
  absl::StrAppend(&text,
                  "  failurePolicy:\n"
                  "    maxRestarts: ",
                  spec.max_restarts,
                  "\n"
                  "    rules:\n"
                  "      - action: FailJobSet  # exit code 2: starting again cannot help\n"
                  "        onJobFailureReasons: [PodFailurePolicy]\n"
                  "  network:\n"
                  "    enableDNSHostnames: true\n"
                  "    subdomain: ",
                  name,
                  "\n"
                  "  replicatedJobs:\n"
                  "    - name: train\n"
                  "      replicas: 1\n"
                  "      template:\n"
                  "        spec:\n");
  absl::StrAppend(&text,
                  "          completionMode: Indexed\n"
                  "          completions: ",
                  spec.processes(),
                  "\n"
                  "          parallelism: ",
                  spec.processes(),
                  "\n"
                  "          backoffLimit: 0\n"
                  "          podFailurePolicy:\n"
                  "            rules:\n"
                  "              - action: FailJob\n"
                  "                onExitCodes: {containerName: train, operator: In, values: [2]}\n"
                  "          template:\n"
                  "            spec:\n"
                  "              restartPolicy: Never\n"
                  "              terminationGracePeriodSeconds: ",
                  spec.signal_seconds,
                  "\n"
                  "              containers:\n"
                  "                - name: train\n"
                  "                  image: ",
                  Quoted(spec.image),
                  "\n"
                  "                  command: [bash, -c]\n"
                  "                  args:\n"
                  "                  - |\n",
                  script);
  absl::StrAppend(&text,
                  "                  env:\n"
                  "                    - name: JOBSET_RESTART_ATTEMPT\n"
                  "                      valueFrom:\n"
                  "                        fieldRef: {fieldPath: \"metadata.annotations["
                  "'jobset.sigs.k8s.io/restart-attempt']\"}\n"
                  "                    - name: ONEFLOW_COORDINATOR\n"
                  "                      value: ",
                  name, "-train-0-0.", name, ":", kPort,
                  "\n"
                  "                  resources:\n"
                  "                    requests:\n"
                  "                      memory: ",
                  ((spec.memory_bytes + kBesideArenas) >> 20) + 1, "Mi\n");
  if (spec.cpus_per_process > 0) {
    absl::StrAppend(&text, "                      cpu: ", spec.cpus_per_process, "\n");
  }
  absl::StrAppend(&text,
                  "                  volumeMounts:\n"
                  "                    - {name: job, mountPath: ",
                  MountOf(spec),
                  "}\n"
                  "              volumes:\n"
                  "                - name: job\n"
                  "                  persistentVolumeClaim: {claimName: ",
                  Quoted(spec.volume_claim), "}\n");
  return text;
}

}  // namespace oneflow
