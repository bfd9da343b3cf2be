// JobDir: the folder of a job, with all its inputs and outputs.
//
//   job.sh job.json job.plan [graph.textproto] [keys/]   written by submit
//   jobs                                                 ids at the engine, the first first
//   owner                                                id of the job that may write here
//   attempts                                             a line for each: number, job, checkpoint
//   logs/attempt-N/process-P.log  metrics.jsonl  checkpoints/  status.json  outcome.json
//   cancel                                               there once `oneflow cancel` was called
//   final.json                                           there once nothing is left to do
//   lock                                                 held by submit and by a local job
//
// Foreign bytes in these files are an error or nothing, never more: others may write there.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/job/job_spec.h"

namespace oneflow {

// The engine and the host of a job, as submit noted them in job.json.
struct JobRecord {
  Engine engine = Engine::kLocal;
  std::string host;  // the one submit ran on
};

class JobDir {
 public:
  explicit JobDir(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  // NOT_FOUND, as an input error with a hint, if the folder is not a job's.
  absl::StatusOr<JobRecord> ReadRecord() const;
  absl::Status WriteRecord(const JobSpec& spec) const;

  std::vector<std::string> Jobs() const;  // that submit has started
  // The job that may write here, or was the last to; empty: none has begun.
  std::string Owner() const;
  absl::Status WriteJobs(const std::vector<std::string>& jobs) const;
  std::vector<int64_t> Attempts() const;  // their numbers, in their order

  // The object in a JSON file; nothing where there is none, no object, or one that is nested deeper
  // than any file of a job.
  std::optional<nlohmann::ordered_json> Json(const std::string& name) const;
  bool Has(const std::string& name) const;

  // Logs of an attempt by process: (process, path), in their order.
  std::vector<std::pair<int64_t, std::string>> Logs(int64_t attempt) const;
  // The newest complete checkpoint's name; empty where there is none.
  std::string NewestCheckpoint() const;

 private:
  std::string path_;
};

// "2026-01-31T12:00:00Z"; empty for a year that has none.
std::string UtcText(std::time_t time);

// --job_dir of a verb; an input error where it is missing.
absl::StatusOr<JobDir> JobDirFromFlags(const Arguments& args);

// The lock of a job directory: an open file, locked until it and its copies in other processes are
// closed. A local job holds it as long as any of its processes lives.
class JobLock {
 public:
  // Nothing where another holds it.
  static absl::StatusOr<std::optional<JobLock>> Take(const JobDir& dir);
  // True while somebody holds it. Nothing is taken or written, so a look is in nobody's way.
  static absl::StatusOr<bool> IsHeld(const JobDir& dir);
  JobLock(JobLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  JobLock& operator=(JobLock&&) = delete;
  ~JobLock();
  int fd() const { return fd_; }

 private:
  explicit JobLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace oneflow
