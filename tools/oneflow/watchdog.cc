#include "tools/oneflow/watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

// How often it looks; what "for how long" is told to.
constexpr std::chrono::milliseconds kPeriod{100};

std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a handler may touch it

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Watch(const std::stop_token& stop, const Runtime& runtime, double stall_seconds) {
  StallDetector detector(stall_seconds);
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const bool stalled = detector.Look(Now(), runtime.Firings());
    if (stalled || asked.exchange(false)) {
      const std::string text = ReportText(runtime.Report(), detector);
      std::fprintf(stderr, "oneflow: %s\n%s", stalled ? "nothing fires" : "asked by SIGUSR1",
                   text.c_str());
    }
    ended.wait_for(lock, stop, kPeriod, [] { return false; });
  }
}

}  // namespace

bool StallDetector::Look(double now, const std::vector<int64_t>& firings) {
  now_ = now;
  if (firings.size() != firings_.size()) {  // a run begins or has ended
    firings_ = firings;
    since_.assign(firings.size(), now);
    told_ = false;
  }
  double last = 0;  // when any of them fired
  for (size_t w = 0; w < firings.size(); ++w) {
    if (firings[w] != firings_[w]) {
      firings_[w] = firings[w];
      since_[w] = now;
      told_ = false;
    }
    last = std::max(last, since_[w]);
  }
  if (firings.empty() || told_ || stall_seconds_ <= 0 || now - last < stall_seconds_) return false;
  told_ = true;
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

void ListenToSigusr1() {
  struct sigaction action = {};
  action.sa_handler = [](int) { asked.store(true); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

Watchdog::Watchdog(const Runtime& runtime, double stall_seconds) {
  ListenToSigusr1();
  watcher_ = std::jthread([&runtime, stall_seconds](const std::stop_token& stop) {
    Watch(stop, runtime, stall_seconds);
  });
}

// A question that comes too late must not end the process, as the default action would.
Watchdog::~Watchdog() { std::signal(SIGUSR1, SIG_IGN); }

}  // namespace oneflow
