// JobReport: the files that a run writes to the folder of its job, for observers and for the script
// that restarts it.
//
//   status.json    {"attempt", "step", "loss", "tokens_per_second", "checkpoint", "wait_ms",
//                  "standstill"}: by process 0 when all have joined (only the attempt), then at
//                  most once a second. wait_ms: by rank, then by group of devices, the milliseconds
//                  of a step that the rank waits for the group. standstill: why nothing goes on;
//                  only then
//   outcome.json   {"attempt", "code", "step", "host", "rank", "sentence", "promised", "took"}: how
//                  the attempt ended, by whichever of its processes came first; others find it
//                  there. The last two are process 0's (promise.h)
//
// Both are replaced at one stroke, so a reader never sees half of one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "proto/watch.pb.h"

namespace oneflow {

struct JobOutcome {
  int code = 0;      // 0: done; 1: starting again may help; 2: it cannot
  int64_t step = 0;  // steps done, at least
  std::string host;  // the one that failed; empty: none in particular
  int rank = -1;     // the first of the process that failed
  std::string sentence;
};

class JobReport {
 public:
  // Without a folder nothing is written.
  JobReport(std::string dir, int64_t attempt) : dir_(std::move(dir)), attempt_(attempt) {}

  // All have joined: what an earlier run left under the attempt's number goes. The first status
  // tells the job's script that this launch was an attempt.
  void Begin();

  // One thread. A folder that cannot be written to is no failure of the training.
  // `checkpoint_dir`: where the newest checkpoint is looked for; may be empty. `loss`: none where
  // no label counts.
  void Trained(int64_t steps_done, std::optional<double> loss, double tokens_per_second,
               const std::string& checkpoint_dir);
  // Any thread. Waiting times of ranks, for the next status; those of other ranks stay.
  void Waits(const proto::ProcessWaits& waits);
  // Any thread. Why nothing goes on; empty: it goes on. Writes at once.
  void Standstill(const std::string& why);
  // Any thread. The newest of both: milliseconds of a step by rank, then by group of devices.
  std::map<int, std::map<std::string, double>> waits() const;
  std::string standstill() const;
  // Before End, on its thread: members that the outcome has, too.
  void AddToOutcome(nlohmann::ordered_json members) { members_ = std::move(members); }
  // Any process of the attempt. An outcome of a later attempt stays.
  absl::Status End(const JobOutcome& outcome) const;

 private:
  std::string Path() const;  // the file of the attempt's outcome
  void Write();              // under mutex_

  const std::string dir_;
  const int64_t attempt_;
  mutable std::mutex mutex_;
  nlohmann::ordered_json members_;                      // the outcome's members; null: none
  nlohmann::ordered_json training_;                     // under mutex_
  std::map<int, std::map<std::string, double>> waits_;  // by rank, group; under mutex_
  std::string standstill_;                              // under mutex_
  std::atomic<int64_t> steps_done_{0};
  std::chrono::steady_clock::time_point written_;
};

}  // namespace oneflow
