// oneflow cancel: ends a submitted job after the step that it is in, with a checkpoint.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/load.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/job/command.h"
#include "tools/oneflow/job/engine.h"
#include "tools/oneflow/job/job_dir.h"

namespace oneflow {
namespace {

// Jobs that wait go first: the end of the one that runs must not start them.
absl::Status CancelSlurm(const std::vector<SlurmJob>& jobs) {
  std::vector<std::string> wait = {"scancel", "--quiet"};
  for (const SlurmJob& job : jobs) {
    if (job.state == "PENDING") wait.push_back(job.id);
  }
  if (wait.size() > 2) RETURN_IF_ERROR(RunForOutput(wait).status());
  for (const SlurmJob& job : jobs) {
    if (job.state == "PENDING") continue;
    std::vector<std::string> end = {"scancel", "--quiet"};
    if (!FLAGS_now) end.push_back("--signal=TERM");  // of its steps: the script looks on
    end.push_back(job.id);
    // A job between two steps, or that has just ended, has none to signal: the script sees the
    // mark.
    RETURN_IF_ERROR(RunCommand(end).status());
  }
  return absl::OkStatus();
}

// False also for one that has ended and that nobody has waited for.
bool Runs(pid_t pid) {
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return false;
  const size_t state = stat->rfind(") ");  // "12 (bash) S 1 ..."
  return state != stat->npos && stat->compare(state + 2, 1, "Z") != 0;
}

absl::Status CancelLocal(const JobRecord& record, const std::string& id) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  if (record.host != host) {
    return InputError("oneflow cancel", "the job runs on host " + record.host, "call it there");
  }
  const int64_t number = std::stoll(id);
  if (number <= 1 || number > std::numeric_limits<pid_t>::max()) {
    return absl::DataLossError("process " + id + ": is none that a job can have");
  }
  const auto pid = static_cast<pid_t>(number);
  // The script is the leader of its own session, and so of a group of processes. It hands a SIGTERM
  // on to them, which end at once at a second one. If it was killed they are signalled themselves.
  const bool all = FLAGS_now || !Runs(pid);
  if (kill(all ? -pid : pid, FLAGS_now ? SIGKILL : SIGTERM) == 0 || errno == ESRCH) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("process ", id, ": cannot be signalled"));
}

absl::Status Cancel(const Arguments& /*args*/) {
  const std::string& format = FLAGS_format;
  ASSIGN_OR_RETURN(const JobDir dir, JobDirFromFlags());
  ASSIGN_OR_RETURN(const JobRecord record, dir.ReadRecord());
  if (record.engine == Engine::kKubernetes) {
    return InputError("--job_dir=" + dir.path(), "is a job of Kubernetes, which is not asked",
                      "use kubectl delete -f " + dir.File("jobset.yaml"));
  }
  absl::StatusOr<std::vector<SlurmJob>> answer = JobsAtEngine(dir, record);
  if (!answer.ok() && record.engine == Engine::kSlurm && !dir.Has("final.json")) {
    // The loop looks for the mark whenever an attempt has ended.
    RETURN_IF_ERROR(WriteFile(dir.File("cancel"), ""));
    return Annotate(answer.status(),
                    "Slurm does not answer: no further attempt begins; call again to end this one");
  }
  RETURN_IF_ERROR(answer.status());
  std::vector<SlurmJob> jobs = *std::move(answer);
  std::erase_if(jobs, [](const SlurmJob& job) { return !IsLive(job); });
  if (!jobs.empty()) {
    RETURN_IF_ERROR(WriteFile(dir.File("cancel"), ""));
    RETURN_IF_ERROR(record.engine == Engine::kSlurm ? CancelSlurm(jobs)
                                                    : CancelLocal(record, jobs[0].id));
  }
  nlohmann::ordered_json json = {{"cancelled", nlohmann::json::array()}};
  std::string ids;
  for (const SlurmJob& job : jobs) {
    json["cancelled"].push_back(job.id);
    absl::StrAppend(&ids, " ", job.id);
  }
  const std::string text = ids.empty() ? "nothing runs or waits\n" : "cancelled:" + ids + "\n";
  std::fputs((format == "json" ? JsonText(json) + "\n" : text).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

Verb CancelVerb() {
  return {verbs::kCancel, "end a submitted job, with a checkpoint of its last step",
          "oneflow cancel --job_dir=run/job\n"
          "oneflow cancel --job_dir=run/job --now\n",
          Cancel};
}

}  // namespace oneflow
