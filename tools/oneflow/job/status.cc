// oneflow status: how a job stands, as its engine and its directory tell.
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/job/engine.h"
#include "tools/oneflow/job/job_dir.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

// Files of a job may hold anything; nothing in them tells a terminal what to do.
std::string Line(const std::string& name, std::string text) {
  text = absl::StrFormat("%-17s %s", name, text);
  std::replace_if(text.begin(), text.end(), absl::ascii_iscntrl, ' ');
  return text + "\n";
}

std::string FormatValue(const Json& value) {
  return value.is_string() ? value.get<std::string>() : JsonText(value);
}

// Waiting times of ranks; the rank that waits least is the one that the others wait for.
std::string WaitsText(const Json& waits) {
  constexpr size_t kMostRanks = 32;
  std::string text, least;
  double least_ms = 0;
  size_t lines = 0;
  for (const auto& [rank, groups] : waits.items()) {
    if (!groups.is_object()) continue;
    double sum = 0;
    std::string list;
    for (const auto& [group, ms] : groups.items()) {
      if (!ms.is_number()) continue;
      sum += ms.get<double>();
      absl::StrAppendFormat(&list, "%s%s %.1f", list.empty() ? "" : "; ", group, ms.get<double>());
    }
    if (least.empty() || sum < least_ms) {
      least = rank;
      least_ms = sum;
    }
    if (++lines > kMostRanks) continue;
    text += Line("    " + rank, absl::StrFormat("%.1f ms a step: %s", sum, list));
  }
  if (least.empty()) return "";
  if (lines > kMostRanks)
    absl::StrAppend(&text, "    ... --format=json has all ", lines, " ranks\n");
  return Line("  waits least", absl::StrFormat("%s: %.1f ms a step", least, least_ms)) +
         "  waits\n" + text;
}

// When a file was last written; empty if it is not there.
std::string TimeWritten(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 ? UtcText(file.st_mtim.tv_sec) : "";
}

std::string StatusText(const Json& status) {
  std::string text = Line("state", FormatValue(status.at("state")));
  if (status.contains("no_answer")) {
    text += Line("slurm", "does not answer; the rest is what the directory tells: " +
                              FormatValue(status.at("no_answer")));
  }
  for (const Json& job : status.at("jobs")) {
    text += Line(absl::StrCat("job ", FormatValue(job.at("id"))),
                 absl::StrCat(FormatValue(job.at("state")), "  ", FormatValue(job.at("where"))));
  }
  for (const char* part : {"attempt", "checkpoint", "last_status"}) {
    if (status.contains(part)) text += Line(part, FormatValue(status.at(part)));
  }
  for (const char* part : {"training", "outcome", "final"}) {
    if (!status.contains(part)) continue;
    absl::StrAppend(&text, part, "\n");
    for (const auto& [name, value] : status.at(part).items()) {
      text += name == "wait_ms" && value.is_object() ? WaitsText(value)
                                                     : Line("  " + name, FormatValue(value));
    }
  }
  return text;
}

absl::Status Status(const Arguments& args) {
  ASSIGN_OR_RETURN(const JobDir dir, JobDirFromFlags(args));
  ASSIGN_OR_RETURN(const JobRecord record, dir.ReadRecord());
  const bool is_asked = record.engine != Engine::kKubernetes;
  const absl::StatusOr<std::vector<SlurmJob>> answer = JobsAtEngine(dir, record);
  // Slurm's controller may be down while the job goes on, and then the folder is all there is.
  if (!answer.ok() && record.engine != Engine::kSlurm) return answer.status();
  std::optional<std::vector<SlurmJob>> jobs;
  if (is_asked && answer.ok()) jobs = *answer;
  const std::optional<Json> final_json = dir.Json("final.json");
  Json status = {{"job_dir", dir.path()},
                 {"engine", EngineName(record.engine)},
                 {"state", DescribeState(jobs, final_json, dir.Has("cancel"))},
                 {"jobs", Json::array()}};
  if (!answer.ok()) status["no_answer"] = std::string(ToStd(answer.status().message()));
  for (const SlurmJob& job : jobs.value_or(std::vector<SlurmJob>())) {
    status["jobs"].push_back(
        {{"id", job.id}, {"state", job.state}, {"nodes", job.nodes}, {"where", job.where}});
  }
  const std::vector<int64_t> attempts = dir.Attempts();
  if (!attempts.empty()) status["attempt"] = attempts.back();
  const std::string checkpoint = dir.NewestCheckpoint();
  if (!checkpoint.empty()) status["checkpoint"] = checkpoint;
  if (const auto training = dir.Json("status.json")) {
    status["training"] = *training;
    status["last_status"] = TimeWritten(dir.File("status.json"));
  }
  if (const auto outcome = dir.Json("outcome.json")) status["outcome"] = *outcome;
  if (final_json) status["final"] = *final_json;
  return Print(StatusText(status), status);
}

}  // namespace

Verb StatusVerb() {
  return {verbs::kStatus, "show the state of a submitted job",
          "oneflow status --job_dir=run/job\n"
          "oneflow status --job_dir=run/job --format=json\n",
          Status};
}

}  // namespace oneflow
