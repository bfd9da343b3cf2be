// JobWatch: the state of all processes of a run, as process 0 knows it: the waiting times of ranks,
// and the processes without progress. It stores the state in the job's status, and says why a job
// stands still.
//
//   JobWatch watch(processes, ranks, &report, notice);
//   watch.Note(process, JobWatch::kWaits, waits.SerializeAsString());      from anywhere
//   watch.Look();                                                          now and then
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "proto/watch.pb.h"
#include "training/trainer/job_report.h"
#include "training/trainer/notice.h"
#include "training/trainer/standstill.h"

namespace oneflow {

class JobWatch {
 public:
  // Names of notes: of a ProcessWaits, of a ProcessStall.
  static constexpr char kWaits[] = "waits", kStall[] = "stall";

  JobWatch(int processes, int ranks, JobReport* report, Notice notice)
      : report_(report), notice_(std::move(notice)), board_(processes, ranks) {}

  // Any thread; it waits for no disk. A note that cannot be read is dropped.
  void Note(int process, const std::string& name, const std::string& value);
  // One thread. Writes what has come, and notices a standstill.
  void Look();

 private:
  JobReport* const report_;
  const Notice notice_;
  std::mutex mutex_;
  StandstillBoard board_;                   // under mutex_
  std::vector<proto::ProcessWaits> waits_;  // under mutex_; since the last Look
};

}  // namespace oneflow
