// BeginAttempt and EndAttempt.
//
// Invariants:
//   1. Only BeginAttempt makes the folder of an attempt.
//   2. A writer and CommitParts only use paths below the folder of their attempt, so they fail once
//      that folder has another name. A process of an older attempt that wakes up late finds nothing
//      to write to and nothing to rename.
//   3. A folder of an attempt is renamed atomically before the first of its files is removed, so
//      nobody renames half of a checkpoint.
#include "training/checkpoint/attempt.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/files/durable.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp", kEnded = ".ended.tmp";

absl::Status CannotWrite(const std::string& dir, int error) {
  return WriteError(dir, "cannot be written to", error,
                    "give a folder that can be created and written");
}

// Entries of the folder that no running attempt needs.
struct Leftovers {
  std::vector<std::string> attempts;  // their names can still be used
  std::vector<std::string> others;
};

absl::StatusOr<Leftovers> FindLeftovers(const std::string& dir) {
  Leftovers found;
  std::error_code error;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.ends_with(kTemporary)) continue;
    const bool ended = name.ends_with(kEnded);
    const std::string path = absl::StrCat(dir, "/", name);
    if (name.starts_with("attempt-")) (ended ? found.others : found.attempts).push_back(path);
    if (name.starts_with("step-")) found.others.push_back(path);  // half removed
  }
  if (error) return CannotWrite(dir, error.value());
  return found;
}

}  // namespace

std::string AttemptFolder(const std::string& dir, int64_t attempt) {
  return absl::StrCat(dir, "/attempt-", attempt, ".tmp");
}

std::string StepFolder(const std::string& dir, int64_t step) {
  return absl::StrFormat("%s/step-%08d", dir, step);
}

std::string TemporaryFolder(const std::string& dir, int64_t attempt, int64_t step) {
  return StepFolder(AttemptFolder(dir, attempt), step);
}

absl::Status MayWrite(const WriterOptions& options) {
  if (!options.may_write || options.may_write()) return absl::OkStatus();
  return absl::AbortedError("this process was stopped for too long and the job went on without it");
}

absl::Status OrEnded(absl::Status status, const std::string& dir, int64_t attempt) {
  std::error_code error;
  if (status.ok() || absl::IsAborted(status)) return status;
  const fs::file_status folder = fs::status(AttemptFolder(dir, attempt), error);
  if (folder.type() != fs::file_type::not_found) return status;
  if (fs::status(dir, error).type() == fs::file_type::not_found) {
    return InputError(dir, "is not on this host, and process 0 has made it on its own",
                      "give a folder of a file system that all hosts share");
  }
  return absl::AbortedError(absl::StrCat(dir, ": attempt ", attempt,
                                         " is over: it writes no checkpoint any more (",
                                         status.message(), ")"));
}

absl::Status BeginAttempt(const std::string& dir, int64_t attempt) {
  RETURN_IF_ERROR(CreateFolders(dir));
  ASSIGN_OR_RETURN(Leftovers found, FindLeftovers(dir));
  std::error_code error;
  for (const std::string& path : found.others) {
    fs::remove_all(path, error);
    if (error) return CannotWrite(dir, error.value());
  }
  for (const std::string& path : found.attempts) {
    const std::string ended = path.substr(0, path.size() - kTemporary.size()) + std::string(kEnded);
    fs::rename(path, ended, error);
    if (error) return CannotWrite(dir, error.value());
  }
  // The old names are removed durably first: a crash of the machine must not bring them back.
  if (!found.attempts.empty()) RETURN_IF_ERROR(SyncFolder(dir));
  if (mkdir(AttemptFolder(dir, attempt).c_str(), 0777) != 0) return CannotWrite(dir, errno);
  for (const std::string& path : found.attempts) {
    fs::remove_all(path.substr(0, path.size() - kTemporary.size()) + std::string(kEnded), error);
    if (error) return CannotWrite(dir, error.value());
  }
  return absl::OkStatus();
}

void EndAttempt(const std::string& dir, int64_t attempt) {
  std::error_code ignored;
  fs::remove_all(AttemptFolder(dir, attempt), ignored);
}

}  // namespace oneflow
