// ReportSender: takes the reports of a worker and passes them on from a separate thread, because
// handing on allocates, and may wait for a lock.
//
//   ReportSender sender([&](uint64_t run, int64_t step, std::span<const double> values) { ... });
//   sender.Report(run, step, values);      a worker
//   sender.Flush();                        returns when all of it has been handed on
//
// Invariants (under mutex_):
//  1. entries_ is a ring: count_ entries from first_ on have not been handed on yet.
//  2. Report allocates nothing, where it has at most kMostValues values. It waits only for a free
//     entry: for a thread of this process, never for another process.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace oneflow {

class ReportSender {
 public:
  static constexpr size_t kMostValues = 264;  // kReportedScalars, and counts of 256 experts
  // Called by the sender's thread, in the order of the reports.
  using Send = std::function<void(uint64_t run, int64_t step, std::span<const double> values)>;

  explicit ReportSender(Send send, size_t capacity = 256);
  // Hands on what is left.
  ~ReportSender();
  ReportSender(const ReportSender&) = delete;
  ReportSender& operator=(const ReportSender&) = delete;

  // Any thread.
  void Report(uint64_t run, int64_t step, std::span<const double> values);
  void Flush();

 private:
  struct Entry {
    uint64_t run = 0;
    int64_t step = 0;
    std::vector<double> values;
  };
  void HandOn();

  const Send send_;
  std::mutex mutex_;
  std::condition_variable to_sender_, to_others_;
  std::vector<Entry> entries_;
  size_t first_ = 0, count_ = 0;
  bool ends_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace oneflow
