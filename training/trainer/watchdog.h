// Watchdog: explains stalls. While a training runs, a standstill of stall_seconds, or somebody who
// asks, has it say which worker waits for which slot, and for how long. A standstill of
// asynchronous devices ends the run with DEADLINE_EXCEEDED, unless the host reads or writes
// meanwhile; if they do not come to rest then, it ends the process with exit code 1.
//
//   const Watchdog watchdog(*runtime, {.stall_seconds = 60});
//   absl::Status status = runtime->Run(...);
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "proto/watch.pb.h"
#include "training/trainer/notice.h"

namespace oneflow {

// Detects a standstill of the workers of a run from their numbers of firings. It has no clock: the
// time is given.
class StallDetector {
 public:
  // 0: nothing is ever a stall.
  explicit StallDetector(double stall_seconds) : stall_seconds_(stall_seconds) {}

  // `firings` by worker, as Runtime::Firings gives them; empty between runs. True when none has
  // fired for stall_seconds: once, until one fires again.
  bool Look(double now, const std::vector<int64_t>& firings);
  // It was no stall: the next one is reported after stall_seconds more.
  void Forgive() {
    forgiven_ = now_;
    reported_ = false;
  }
  // True if a stall was reported, and no worker has fired since.
  bool stalled() const { return reported_; }
  // Seconds up to the last Look since `worker` was first seen with as many firings as it has.
  double Idle(size_t worker) const { return now_ - since_[worker]; }

 private:
  const double stall_seconds_;
  double now_ = 0;
  double forgiven_ = 0;
  std::vector<int64_t> firings_;
  std::vector<double> since_;  // by worker
  bool reported_ = false;
};

// A paragraph a worker:
//
//   rank 0, 12 firings, the last begun 2.5 s ago
//     compute: actor ...
std::string ReportText(const std::vector<WorkerReport>& report, const StallDetector& detector);

// The same for those who join the reports of many processes (standstill.h).
proto::ProcessStall MakeStall(const std::vector<WorkerReport>& report,
                              const StallDetector& detector);

// Reads a clock that never goes back.
double WatchSeconds();

struct WatchdogOptions {
  double stall_seconds = 60;  // 0: never
  bool ends = false;          // a run that stands still
  double rest_seconds = 30;   // for the devices to come to rest after that
  std::string host;           // passed to on_stall
  Notice notice;              // takes the reports
  // Asked ten times a second: true once somebody wants a report now. null: nobody does.
  std::function<bool()> wants_report;
  // Called by the watchdog's thread; each may be null. `on_waits`: for how long ranks wait, about
  // once in waits_seconds. `on_stall`: that the run stands still, and what its workers are at; then
  // that it goes on. `on_look`: each time it has looked, ten times a second.
  double waits_seconds = 1;
  std::function<void(const proto::ProcessWaits&)> on_waits;
  std::function<void(const proto::ProcessStall&)> on_stall;
  std::function<void()> on_look;
};

class Watchdog {
 public:
  Watchdog(Runtime& runtime, const WatchdogOptions& options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::jthread watcher_;
};

}  // namespace oneflow
