// Interrupt: ends a run in order on Ctrl-C (SIGINT), SIGTERM or SIGHUP. A second one, of any kind
// and not at once after the first, kills.
//
//   const Interrupt interrupt([&] { trainer->AskStop(); });
//   absl::Status status = trainer->Run();
//   if (absl::IsCancelled(status)) ...
//
// One at a time in a process. A verb that a program calls handles no signals: its caller says when
// it is to end (caller.h). A signal that was ignored before (nohup, a background job) stays so.
#pragma once

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

 private:
  std::jthread watcher_;
};

// From now on SIGUSR1 ends nothing: it asks for a report of the workers.
void ListenToSigusr1();
// True once after SIGUSR1 has come.
bool TakeReportRequest();

}  // namespace oneflow
