#include "training/trainer/watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "training/trainer/wait_meter.h"

namespace oneflow {
namespace {

// The period of its checks, which is the precision of waiting times.
constexpr std::chrono::milliseconds kPeriod{100};

// Ends a run that stands still; false where the host is at work.
bool EndStalled(Runtime& runtime, const std::vector<WorkerReport>& report, double stall_seconds) {
  const auto host_works = [](const WorkerReport& worker) { return worker.in_host_kernel; };
  if (std::any_of(report.begin(), report.end(), host_works)) return false;
  runtime.End(absl::DeadlineExceededError(
      absl::StrCat("nothing has fired on the GPUs for ", stall_seconds,
                   " seconds (--stall_seconds): who waits for whom was printed")));
  return true;
}

void Watch(const std::stop_token& stop, Runtime& runtime, const WatchdogOptions& options) {
  StallDetector detector(options.stall_seconds);
  WaitMeter meter(options.waits_seconds);
  bool stall_told = false;
  std::optional<double> ended_at;
  std::vector<int64_t> ended_with;
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const std::vector<int64_t> firings = runtime.Firings();
    const bool stalled = detector.Look(WatchSeconds(), firings);
    // Another run: the devices have come to rest, or the one that was to be ended had ended.
    if (!firings.empty() && firings != ended_with) ended_at.reset();
    if (stalled || (options.wants_report && options.wants_report())) {
      const std::vector<WorkerReport> report = runtime.Report();
      const std::string text = ReportText(report, detector);
      Notify(options.notice, absl::StrCat(stalled ? "nothing fires" : "asked by SIGUSR1", "\n",
                                          absl::StripSuffix(text, "\n")));
      if (stalled && options.on_stall) {
        proto::ProcessStall stall = MakeStall(report, detector);
        stall.set_host(options.host);
        options.on_stall(stall);
        stall_told = true;
      }
      if (stalled && options.ends && !ended_at) {
        if (EndStalled(runtime, report, options.stall_seconds)) {
          ended_at = WatchSeconds();
          ended_with = firings;
        } else {
          detector.Forgive();
        }
      }
    }
    if (ended_at && WatchSeconds() - *ended_at >= options.rest_seconds) {
      Notify(options.notice, "error: the GPUs do not come to rest: the process ends");
      std::_Exit(1);  // an ordinary exit would wait for them
    }
    if (stall_told && !detector.stalled()) {
      stall_told = false;
      options.on_stall(proto::ProcessStall());
    }
    if (options.on_waits && meter.IsDue(WatchSeconds())) {
      if (const auto waits = meter.Look(WatchSeconds(), runtime.Waits())) options.on_waits(*waits);
    }
    if (options.on_look) options.on_look();
    ended.wait_for(lock, stop, kPeriod, [] { return false; });
  }
}

}  // namespace

double WatchSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool StallDetector::Look(double now, const std::vector<int64_t>& firings) {
  now_ = now;
  if (firings.size() != firings_.size()) {  // a run begins or has ended
    firings_ = firings;
    since_.assign(firings.size(), now);
    reported_ = false;
  }
  double last = forgiven_;  // when any of them fired
  for (size_t w = 0; w < firings.size(); ++w) {
    if (firings[w] != firings_[w]) {
      firings_[w] = firings[w];
      since_[w] = now;
      reported_ = false;
    }
    last = std::max(last, since_[w]);
  }
  if (firings.empty() || reported_ || stall_seconds_ <= 0 || now - last < stall_seconds_)
    return false;
  reported_ = true;
  return true;
}

std::string ReportText(const std::vector<WorkerReport>& report, const StallDetector& detector) {
  if (report.empty()) return "  no program runs\n";
  std::string text;
  for (size_t w = 0; w < report.size(); ++w) {
    absl::StrAppendFormat(&text, "  %s, %d firings, the last begun %.1f s ago\n", report[w].worker,
                          report[w].firings, detector.Idle(w));
    for (const std::string& stream : report[w].streams) {
      absl::StrAppend(&text, "    ", stream, "\n");
    }
  }
  return text;
}

proto::ProcessStall MakeStall(const std::vector<WorkerReport>& report,
                              const StallDetector& detector) {
  proto::ProcessStall stall;
  stall.set_stands_still(true);
  for (size_t w = 0; w < report.size(); ++w) {
    proto::WorkerStall* worker = stall.add_worker();
    worker->set_rank(report[w].rank);
    worker->set_inside(report[w].inside);
    worker->set_at(absl::StrJoin(report[w].streams, "; "));
    worker->set_idle_seconds(detector.Idle(w));
    worker->set_may_go_on(report[w].may_go_on);
    for (const int32_t rank : report[w].waits_for) worker->add_waits_for(rank);
    for (const WorkerReport::Entered& entered : report[w].entered) {
      proto::WorkerStall::Entered* added = worker->add_entered();
      added->set_exchange(entered.exchange);
      for (const int32_t rank : entered.missing) added->add_missing(rank);
      for (const int32_t rank : entered.far) added->add_far(rank);
    }
  }
  return stall;
}

Watchdog::Watchdog(Runtime& runtime, const WatchdogOptions& options)
    : watcher_(
          [&runtime, options](const std::stop_token& stop) { Watch(stop, runtime, options); }) {}

}  // namespace oneflow
