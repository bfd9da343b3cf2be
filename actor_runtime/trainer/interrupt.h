// Interrupt: ends a run in order on Ctrl-C (SIGINT), SIGTERM or SIGHUP. A second one, of any kind
// and not at once after the first, kills.
//
//   const Interrupt interrupt([&] { std::fputs("interrupted\n", stderr); });
//   options.stop = &interrupt.signalled();
//   absl::Status status = TrainLoop(...);
//   if (absl::IsCancelled(status)) ...
//
// One at a time in a process. A signal that was ignored before (nohup, a background job) stays so.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace oneflow {

class Interrupt {
 public:
  // From the first signal until this object goes, a separate thread calls `end` repeatedly, at
  // least once: whatever begins meanwhile can be ended, too.
  explicit Interrupt(std::function<void()> end);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True from the first signal on: the handler itself sets it.
  const std::atomic<bool>& signalled() const;

 private:
  std::jthread watcher_;
};

}  // namespace oneflow
