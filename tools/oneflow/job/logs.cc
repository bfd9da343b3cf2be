// oneflow logs: the last lines that the processes of a job's attempt wrote.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/job/job_dir.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

struct Log {
  std::string name;  // "process 3", "loop"
  std::string path;
};

std::string LastLines(const std::string& text, int64_t lines) {
  if (lines == 0) return text;
  size_t begin = text.ends_with('\n') ? text.size() - 1 : text.size();
  for (; lines > 0 && begin != text.npos; --lines) {
    begin = begin == 0 ? text.npos : text.rfind('\n', begin - 1);
  }
  return begin == text.npos ? text : text.substr(begin + 1);
}

// Logs of the scripts of the engine's jobs, a file a job.
std::vector<Log> LoopLogs(const JobDir& dir) {
  std::vector<Log> logs;
  for (const std::string& job : dir.Jobs()) {
    logs.push_back({"loop of job " + job, dir.File("logs/slurm-" + job + ".log")});
  }
  logs.push_back({"loop", dir.File("logs/local.log")});
  std::erase_if(logs, [](const Log& log) {
    std::error_code error;
    return !fs::exists(log.path, error);
  });
  return logs;
}

// The one that --attempt names, which must have begun; else the newest, or 0 where none has begun.
absl::StatusOr<int64_t> AttemptFromFlags(const JobDir& dir) {
  const std::vector<int64_t> attempts = dir.Attempts();
  const int64_t newest = attempts.empty() ? 0 : attempts.back();
  if (FLAGS_attempt == 0) return newest;
  if (std::find(attempts.begin(), attempts.end(), FLAGS_attempt) != attempts.end()) {
    return FLAGS_attempt;
  }
  return InputError(absl::StrCat("--attempt=", FLAGS_attempt), "there is no such attempt",
                    newest == 0 ? "none has begun" : absl::StrCat("the newest is ", newest));
}

absl::Status Logs(const Arguments& args) {
  if (FLAGS_lines < 0) return InputError("--lines", "must not be negative", "0: all");
  ASSIGN_OR_RETURN(const JobDir dir, JobDirFromFlags(args));
  RETURN_IF_ERROR(dir.ReadRecord().status());
  ASSIGN_OR_RETURN(const int64_t attempt, AttemptFromFlags(dir));
  std::vector<Log> logs = args.Given("process") ? std::vector<Log>() : LoopLogs(dir);
  for (const auto& [process, path] : dir.Logs(attempt)) {
    if (FLAGS_process >= 0 && process != FLAGS_process) continue;
    logs.push_back({absl::StrCat("process ", process), path});
  }
  if (logs.empty()) {
    if (attempt == 0) {
      return InputError("--job_dir=" + dir.path(), "has no logs: no attempt has begun",
                        "see `oneflow status`");
    }
    const std::string of =
        FLAGS_process < 0 ? "any process" : absl::StrCat("process ", FLAGS_process);
    return InputError("--job_dir=" + dir.path(),
                      absl::StrCat("has no log of ", of, " of attempt ", attempt),
                      "leave --process out to see the logs that there are");
  }
  std::string text;
  nlohmann::ordered_json json = {{"attempt", attempt}};
  for (const Log& log : logs) {
    ASSIGN_OR_RETURN(const std::string bytes, ReadFile(log.path));
    const std::string last = LastLines(bytes, FLAGS_lines);
    absl::StrAppend(&text, "== ", log.name, " (", log.path, ")\n", last,
                    last.empty() || last.ends_with('\n') ? "" : "\n");
    json["logs"].push_back({{"of", log.name}, {"path", log.path}, {"text", last}});
  }
  return Print(text, json);
}

}  // namespace

Verb LogsVerb() {
  return {verbs::kLogs, "show the logs of a submitted job",
          "oneflow logs --job_dir=run/job\n"
          "oneflow logs --job_dir=run/job --attempt=2 --process=0 --lines=0\n",
          Logs};
}

}  // namespace oneflow
