// WaitMeter: waiting times of ranks for groups of devices, in milliseconds a step of training, over
// the steps since the last report. It has no clock: the time is given.
//
//   WaitMeter meter(/*every_seconds=*/1);
//   if (auto waits = meter.Look(now, runtime.Waits())) ... tell them ...
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "proto/watch.pb.h"

namespace oneflow {

class WaitMeter {
 public:
  explicit WaitMeter(double every_seconds) : every_seconds_(every_seconds) {}

  // True if Look may return something.
  bool IsDue(double now) const { return !reported_at_ || now - *reported_at_ >= every_seconds_; }
  // Something once a step is done, and then after every_seconds with another one, at most.
  std::optional<proto::ProcessWaits> Look(double now, const RankWaits& waits);

 private:
  const double every_seconds_;
  std::optional<double> reported_at_;
  uint64_t run_ = 0;
  int64_t steps_ = 0;                 // the run's, at the last report
  std::vector<int64_t> nanoseconds_;  // likewise
};

}  // namespace oneflow
