#include "training/trainer/processes/stop_point.h"

namespace oneflow {

StepGate* StopPoint::StartRun() {
  std::unique_lock lock(mutex_);
  wait_(changed_, lock, [this] { return !held_ || end_ || abandoned_; });
  ++number_;
  running_ = true;
  gate_.Open();
  if (abandoned_ || (end_ && end_->run < number_)) {
    gate_.EndAt(0);
  } else if (end_ && end_->run == number_) {
    gate_.EndAt(end_->steps);
  }
  return &gate_;
}

bool StopPoint::StopHere() {
  std::unique_lock lock(mutex_);
  wait_(changed_, lock, [this] { return !held_ || end_ || abandoned_; });
  running_ = false;
  return abandoned_ || (end_ && end_->run <= number_);
}

StepPosition StopPoint::Hold() {
  const std::lock_guard lock(mutex_);
  // Once the end is known nobody would let go of what is held here.
  if (end_ || abandoned_)
    return running_ ? StepPosition{number_, gate_.begun()} : StepPosition{number_ + 1, 0};
  held_ = true;
  return running_ ? StepPosition{number_, gate_.Hold()} : StepPosition{number_ + 1, 0};
}

void StopPoint::EndAt(const StepPosition& end, const std::function<void()>& wake) {
  {
    const std::lock_guard lock(mutex_);
    if (end_) return;
    end_ = end;
    if (running_) {
      // An execution before that one takes all its steps.
      if (end.run == number_) {
        gate_.EndAt(end.steps);
      } else {
        gate_.Release();
      }
    }
  }
  changed_.notify_all();
  wake();
}

void StopPoint::Abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    if (running_) gate_.EndAt(gate_.Hold());
  }
  changed_.notify_all();
}

}  // namespace oneflow
