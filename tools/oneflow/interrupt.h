// Interrupt: ends a run in order on Ctrl-C (SIGINT) or SIGTERM. A second one, of either kind and
// not at once after the first, kills.
//
//   const Interrupt interrupt([&] { runtime.Stop(); });
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
  // From the first signal until this object goes, a thread of its own calls `end` again and again:
  // whatever begins meanwhile is ended, too.
  explicit Interrupt(std::function<void()> end);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  std::jthread watcher_;
};

}  // namespace oneflow
