#include "training/trainer/processes/report_queue.h"

namespace oneflow {

void ReportQueue::Deliver(uint64_t run, int64_t step, std::span<const double> values) {
  {
    const std::lock_guard lock(mutex_);
    if (run == run_ && take_) {
      take_(step, values);
      ++taken_;
    } else if (run > run_) {
      waiting_.push_back({run, step, {values.begin(), values.end()}});
    }
  }
  changed_.notify_all();
}

void ReportQueue::End(const absl::Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_.ok()) ended_ = why;
  }
  changed_.notify_all();
}

void ReportQueue::Take(uint64_t run, TakeReport take) {
  const std::lock_guard lock(mutex_);
  run_ = run;
  taken_ = 0;
  take_ = std::move(take);
  Flush();
}

void ReportQueue::Leave() {
  const std::lock_guard lock(mutex_);
  take_ = nullptr;
}

void ReportQueue::Flush() {
  while (!waiting_.empty() && waiting_.front().run <= run_) {
    const Report report = std::move(waiting_.front());
    waiting_.pop_front();
    if (report.run < run_ || !take_) continue;
    take_(report.step, report.values);
    ++taken_;
  }
}

absl::Status ReportQueue::Await(int64_t reports) {
  std::unique_lock lock(mutex_);
  wait_(changed_, lock, [&] { return taken_ >= reports || !ended_.ok(); });
  return taken_ >= reports ? absl::OkStatus() : ended_;
}

}  // namespace oneflow
