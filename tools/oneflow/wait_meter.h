// WaitMeter: for how long ranks wait for groups of devices, in milliseconds a step of training,
// over the steps since it was last told. It knows no clock: the time is given.
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

  // Whether Look may tell something.
  bool IsDue(double now) const { return !told_at_ || now - *told_at_ >= every_seconds_; }
  // Something once a step is done, and then after every_seconds with another one, at most.
  std::optional<proto::ProcessWaits> Look(double now, const RankWaits& waits);

 private:
  const double every_seconds_;
  std::optional<double> told_at_;
  uint64_t run_ = 0;
  int64_t steps_ = 0;                 // of the run, when last told
  std::vector<int64_t> nanoseconds_;  // likewise
};

}  // namespace oneflow
