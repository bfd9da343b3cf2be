#include "training/trainer/job_watch.h"

#include <optional>

#include "training/trainer/watchdog.h"

namespace oneflow {

void JobWatch::Note(int process, const std::string& name, const std::string& value) {
  if (name == kWaits) {
    proto::ProcessWaits waits;
    if (!waits.ParseFromString(value)) return;
    const std::lock_guard lock(mutex_);
    waits_.push_back(std::move(waits));
    return;
  }
  proto::ProcessStall stall;
  if (name != kStall || !stall.ParseFromString(value)) return;
  stall.set_process(process);
  const std::lock_guard lock(mutex_);
  board_.Put(WatchSeconds(), stall);
}

void JobWatch::Look() {
  std::optional<std::string> why;
  bool any = false;
  std::vector<proto::ProcessWaits> waits;
  {
    const std::lock_guard lock(mutex_);
    why = board_.Look(WatchSeconds());
    any = board_.any();
    waits.swap(waits_);
  }
  for (const proto::ProcessWaits& of_process : waits) report_->Waits(of_process);
  if (!any) report_->Standstill("");
  if (!why) return;
  report_->Standstill(*why);
  Notify(notice_, "the job stands still: " + *why);
}

}  // namespace oneflow
