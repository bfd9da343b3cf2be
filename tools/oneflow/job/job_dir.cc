#include "tools/oneflow/job/job_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "training/checkpoint/checkpoint.h"
#include "training/job/job.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "process-12.log" -> 12
std::optional<int64_t> ParseProcess(std::string_view name) {
  constexpr std::string_view kBegin = "process-", kEnd = ".log";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(std::min(name.size(), kEnd.size()));
  return Number(name);
}

// Files of a job are a few levels deep. They are printed, and printing takes stack by level.
constexpr int kMostLevels = 16;

std::string ReadText(const nlohmann::ordered_json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

// The lines of a file; none where it cannot be read.
std::vector<std::string> ReadLines(const std::string& path) {
  return absl::StrSplit(ReadFile(path).value_or(""), '\n');
}

// The lines that are ids of an engine.
std::vector<std::string> ReadIds(const std::string& path) {
  std::vector<std::string> ids = ReadLines(path);
  std::erase_if(ids, [](const std::string& line) { return Number(line).value_or(0) <= 0; });
  return ids;
}

}  // namespace

bool JobDir::Has(const std::string& name) const {
  std::error_code error;
  return fs::exists(File(name), error);
}

std::optional<nlohmann::ordered_json> JobDir::Json(const std::string& name) const {
  const absl::StatusOr<std::string> text = ReadFile(File(name));
  if (!text.ok()) return std::nullopt;
  int levels = 0;
  const auto count = [&](int depth, nlohmann::ordered_json::parse_event_t, const auto&) {
    levels = std::max(levels, depth);
    return levels <= kMostLevels;  // what is deeper is left out
  };
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(*text, count, false);
  if (!json.is_object() || levels > kMostLevels) return std::nullopt;
  return json;
}

absl::StatusOr<JobRecord> JobDir::ReadRecord() const {
  const std::optional<nlohmann::ordered_json> json = Json("job.json");
  if (!json) {
    return InputError("--job_dir=" + path_,
                      "is no job's directory: it has no job.json that can be read",
                      "give the directory that `oneflow submit` was given");
  }
  const absl::StatusOr<Engine> engine = ParseEngine(ReadText(*json, "engine"));
  if (!engine.ok()) return Annotate(engine.status(), File("job.json"));
  return JobRecord{*engine, ReadText(*json, "host")};
}

absl::Status JobDir::WriteRecord(const JobSpec& spec) const {
  const nlohmann::ordered_json json = {{"engine", EngineName(spec.engine)},
                                       {"submitted", UtcText(std::time(nullptr))},
                                       {"host", HostName()},
                                       {"nodes", spec.nodes},
                                       {"spare_nodes", spec.spare_nodes},
                                       {"processes", spec.processes()}};
  return WriteFile(File("job.json"), JsonText(json, 2) + "\n");
}

std::vector<std::string> JobDir::Jobs() const { return ReadIds(File("jobs")); }

std::string JobDir::Owner() const {
  const std::vector<std::string> ids = ReadIds(File("owner"));
  return ids.empty() ? "" : ids[0];
}

absl::Status JobDir::WriteJobs(const std::vector<std::string>& jobs) const {
  std::string text;
  for (const std::string& job : jobs) text += job + "\n";
  return WriteFile(File("jobs"), text);
}

std::vector<int64_t> JobDir::Attempts() const {
  std::vector<int64_t> attempts;
  for (const std::string& line : ReadLines(File("attempts"))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const int64_t number = words.size() < 3 ? 0 : Number(words[0]).value_or(0);
    if (number > 0) attempts.push_back(number);
  }
  return attempts;
}

std::vector<std::pair<int64_t, std::string>> JobDir::Logs(int64_t attempt) const {
  std::vector<std::pair<int64_t, std::string>> logs;
  std::error_code error;
  const std::string folder = File(absl::StrCat("logs/attempt-", attempt));
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::optional<int64_t> process = ParseProcess(it->path().filename().string());
    if (process) logs.emplace_back(*process, it->path().string());
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

std::string JobDir::NewestCheckpoint() const {
  const absl::StatusOr<std::string> latest = LatestCheckpoint(File("checkpoints"));
  return latest.ok() ? fs::path(*latest).filename().string() : "";
}

std::string UtcText(std::time_t time) {
  std::tm utc = {};
  char text[32] = "";
  if (gmtime_r(&time, &utc) != nullptr) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

absl::StatusOr<JobDir> JobDirFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  if (run.has_job_dir()) return JobDir(run.job_dir());
  return InputError("--job_dir", "is missing", "name the directory that submit was given");
}

namespace {

// All of a file; the lock is of the open file, and not of the process.
struct flock WriteLock() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

absl::StatusOr<std::optional<JobLock>> JobLock::Take(const JobDir& dir) {
  const std::string path = dir.File("lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return WriteError(path, "cannot be created", errno);
  JobLock lock(fd);
  const struct flock wanted = WriteLock();
  if (fcntl(fd, F_OFD_SETLK, &wanted) == 0) return std::optional<JobLock>(std::move(lock));
  if (errno == EAGAIN || errno == EACCES) return std::optional<JobLock>();
  return WriteError(path, "cannot be locked", errno, "use a file system that has locks");
}

absl::StatusOr<bool> JobLock::IsHeld(const JobDir& dir) {
  const std::string path = dir.File("lock");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return false;
  if (fd < 0) return WriteError(path, "cannot be read", errno, "check its permissions");
  const JobLock file(fd);
  struct flock found = WriteLock();
  if (fcntl(fd, F_OFD_GETLK, &found) == 0) return found.l_type != F_UNLCK;
  return WriteError(path, "is not known to be locked or not", errno,
                    "use a file system that has locks");
}

JobLock::~JobLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace oneflow
