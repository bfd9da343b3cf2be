// oneflow cancel: ends a submitted job after the step that it is in, with a checkpoint.
#include <signal.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/job/command.h"
#include "tools/oneflow/job/engine.h"
#include "tools/oneflow/job/job_dir.h"
#include "training/job/job.h"

namespace oneflow {
namespace {

absl::Status CancelWaiting(const JobDir& dir, const JobRecord& record,
                           const std::vector<std::string>& ids) {
  std::vector<std::string> cancel = {"scancel", "--quiet", "--state=PENDING"};
  cancel.insert(cancel.end(), ids.begin(), ids.end());
  absl::Status status = RunForOutput(cancel).status();
  // scancel fails without a word if one of the jobs has ended, or begins while it looks. Only a job
  // that still waits counts.
  for (int looks = 0; looks < 3 && !status.ok(); ++looks) {
    ASSIGN_OR_RETURN(const std::vector<SlurmJob> jobs, JobsAtEngine(dir, record));
    cancel.resize(3);
    for (const SlurmJob& job : jobs) {
      if (job.state == "PENDING") cancel.push_back(job.id);
    }
    if (cancel.size() == 3) return absl::OkStatus();
    status = RunForOutput(cancel).status();
  }
  return status;
}

// Jobs that wait go first: the end of the one that runs must not start them.
absl::Status CancelSlurm(const JobDir& dir, const JobRecord& record,
                         const std::vector<std::string>& ids) {
  const absl::Status waiting = CancelWaiting(dir, record, ids);
  std::vector<std::string> end = {"scancel", "--quiet"};
  if (!FLAGS_now) end.push_back("--signal=TERM");  // of its steps: the script looks on
  end.insert(end.end(), ids.begin(), ids.end());
  // A job between two steps, or that has just ended, has none to signal: the script sees the mark.
  RETURN_IF_ERROR(RunCommand(end).status());
  return waiting;
}

// False also for one that has ended and that nobody has waited for.
bool Runs(pid_t pid) {
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return false;
  const size_t state = stat->rfind(") ");  // "12 (bash) S 1 ..."
  return state != stat->npos && stat->compare(state + 2, 1, "Z") != 0;
}

absl::Status CancelLocal(const JobRecord& record, const std::string& id) {
  if (record.host != HostName()) {
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

absl::Status Cancel(const Arguments& args) {
  ASSIGN_OR_RETURN(const JobDir dir, JobDirFromFlags(args));
  ASSIGN_OR_RETURN(const JobRecord record, dir.ReadRecord());
  if (record.engine == Engine::kKubernetes) {
    return InputError("--job_dir=" + dir.path(), "is a job of Kubernetes, which is not asked",
                      "use kubectl delete -f " + dir.File("jobset.yaml"));
  }
  const absl::StatusOr<std::vector<SlurmJob>> answer = JobsAtEngine(dir, record);
  if (!answer.ok() && record.engine == Engine::kSlurm && !dir.Has("final.json")) {
    // The loop looks for the mark whenever an attempt has ended.
    RETURN_IF_ERROR(WriteFile(dir.File("cancel"), ""));
    return Annotate(answer.status(),
                    "Slurm does not answer: no further attempt begins; call again to end this one");
  }
  RETURN_IF_ERROR(answer.status());
  std::vector<std::string> ids;
  for (const SlurmJob& job : *answer) {
    if (IsLive(job)) ids.push_back(job.id);
  }
  if (!ids.empty()) {
    RETURN_IF_ERROR(WriteFile(dir.File("cancel"), ""));
    RETURN_IF_ERROR(record.engine == Engine::kSlurm ? CancelSlurm(dir, record, ids)
                                                    : CancelLocal(record, ids[0]));
  }
  return Print(ids.empty() ? "nothing runs or waits\n"
                           : absl::StrCat("cancelled: ", absl::StrJoin(ids, " "), "\n"),
               nlohmann::ordered_json{{"cancelled", ids}});
}

}  // namespace

Verb CancelVerb() {
  return {verbs::kCancel, "end a submitted job, with a checkpoint of its last step",
          "oneflow cancel --job_dir=run/job\n"
          "oneflow cancel --job_dir=run/job --now\n",
          Cancel};
}

}  // namespace oneflow
