#include "training/trainer/processes/report_sender.h"

#include <utility>

namespace oneflow {

ReportSender::ReportSender(Send send, size_t capacity)
    : send_(std::move(send)), entries_(capacity), thread_([this] { HandOn(); }) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) entry.values.reserve(kMostValues);
}

ReportSender::~ReportSender() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  to_sender_.notify_one();
  thread_.join();
}

void ReportSender::Report(uint64_t run, int64_t step, std::span<const double> values) {
  {
    std::unique_lock lock(mutex_);
    to_others_.wait(lock, [&] { return count_ < entries_.size(); });
    Entry& entry = entries_[(first_ + count_) % entries_.size()];
    entry.run = run;
    entry.step = step;
    entry.values.assign(values.begin(), values.end());
    ++count_;
  }
  to_sender_.notify_one();
}

void ReportSender::Flush() {
  std::unique_lock lock(mutex_);
  to_others_.wait(lock, [&] { return count_ == 0; });
}

void ReportSender::HandOn() {
  std::unique_lock lock(mutex_);
  for (;;) {
    to_sender_.wait(lock, [&] { return count_ > 0 || ends_; });
    if (count_ == 0) return;
    // Nobody writes to it until it is counted off.
    const Entry& entry = entries_[first_];
    lock.unlock();
    send_(entry.run, entry.step, entry.values);
    lock.lock();
    first_ = (first_ + 1) % entries_.size();
    --count_;
    to_others_.notify_all();
  }
}

}  // namespace oneflow
