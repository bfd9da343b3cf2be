// Interrupt: ends a run in order on Ctrl-C (SIGINT) or SIGTERM. The second signal kills.
//
//   const Interrupt interrupt([&] { runtime.Cancel(); });
//   absl::Status status = TrainLoop(...);
//   if (absl::IsCancelled(status)) ...
//
// One at a time in a process. A signal that was ignored before (nohup, a background job) stays so.
#pragma once

#include <functional>
#include <thread>

namespace oneflow {

class Interrupt {
 public:
  // From the first signal until this object goes, a thread of its own calls `cancel` again and
  // again: whatever begins meanwhile is cancelled, too.
  explicit Interrupt(std::function<void()> cancel);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  std::jthread watcher_;
};

}  // namespace oneflow
