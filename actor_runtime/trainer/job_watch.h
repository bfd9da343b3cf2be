// JobWatch: the state of all processes of a run, as process 0 knows it: the waiting times of ranks,
// and the processes without progress. It stores the state in the job's status, and prints why a job
// stands still.
//
//   JobWatch watch(processes, ranks, &report);
//   watch.Note(process, JobWatch::kWaits, waits.SerializeAsString());      from anywhere
//   watch.Look();                                                          now and then
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "actor_runtime/trainer/job_report.h"
#include "actor_runtime/trainer/standstill.h"
#include "proto/watch.pb.h"

namespace oneflow {

class JobWatch {
 public:
  // Names of notes: of a ProcessWaits, of a ProcessStall.
  static constexpr char kWaits[] = "waits", kStall[] = "stall";

  // `print`: takes a line; null: to stderr.
  JobWatch(int processes, int ranks, JobReport* report,
           std::function<void(const std::string&)> print = nullptr);

  // Any thread; it waits for no disk. A note that cannot be read is dropped.
  void Note(int process, const std::string& name, const std::string& value);
  // One thread. Writes and prints what has come.
  void Look();

 private:
  JobReport* const report_;
  const std::function<void(const std::string&)> print_;
  std::mutex mutex_;
  StandstillBoard board_;                   // under mutex_
  std::vector<proto::ProcessWaits> waits_;  // under mutex_; since the last Look
};

}  // namespace oneflow
