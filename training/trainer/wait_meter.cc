#include "training/trainer/wait_meter.h"

namespace oneflow {

std::optional<proto::ProcessWaits> WaitMeter::Look(double now, const RankWaits& waits) {
  if (waits.program != "train") return std::nullopt;
  if (waits.run != run_) {
    run_ = waits.run;
    steps_ = 0;
    nanoseconds_.assign(waits.wait.size(), 0);
  }
  if (waits.steps <= steps_ || !IsDue(now)) return std::nullopt;
  const auto steps = static_cast<double>(waits.steps - steps_);
  proto::ProcessWaits report;
  for (size_t i = 0; i < waits.wait.size(); ++i) {
    const RankWaits::Wait& wait = waits.wait[i];
    proto::ProcessWaits::Wait* to = report.add_wait();
    to->set_rank(wait.rank);
    to->set_group(wait.group);
    to->set_milliseconds(static_cast<double>(wait.nanoseconds - nanoseconds_[i]) * 1e-6 / steps);
    nanoseconds_[i] = wait.nanoseconds;
  }
  steps_ = waits.steps;
  reported_at_ = now;
  return report;
}

}  // namespace oneflow
