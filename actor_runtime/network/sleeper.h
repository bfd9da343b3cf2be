// Sleeper: lets the network's thread sleep until there is work: until one of its file descriptors
// is readable, another thread wakes it, or a time has passed.
//
//   sleeper.Sleep([] { return has_work ? std::nullopt : Plan{...}; });      the network's thread
//   has_work = true; sleeper.Wake();                                        any other thread
//
// The sleeping thread says that it sleeps, and then asks for work once more; a thread with work
// writes that, and then asks whether the other one sleeps. Both are sequentially consistent, so one
// of them sees the other.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <optional>
#include <thread>

#include <glog/logging.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "oneflow_core/base/listening_clock.h"

namespace oneflow {

class Sleeper {
 public:
  Sleeper() = default;
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    if (wake_fd_ >= 0) close(wake_fd_);
  }

  // Called once.
  absl::Status Open() {
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return wake_fd_ < 0 ? absl::InternalError("eventfd failed") : absl::OkStatus();
  }

  void Wake() {
    if (!asleep_.load()) return;
    const uint64_t one = 1;
    if (write(wake_fd_, &one, sizeof(one)) < 0) PCHECK(errno == EAGAIN);
  }

  // What the thread may do, asked when others see that it sleeps.
  struct Plan {
    bool yield = false;                 // it gives its core away, and comes back
    std::array<int, 2> fds = {-1, -1};  // that wake it; -1: none
    std::optional<JobTime> at_most;
  };
  // `plan`: nothing if there is work.
  void Sleep(absl::FunctionRef<std::optional<Plan>()> plan) {
    asleep_.store(true);
    if (const std::optional<Plan> how = plan(); how && how->yield) {
      std::this_thread::yield();
    } else if (how) {
      pollfd fds[] = {{wake_fd_, POLLIN, 0}, {how->fds[0], POLLIN, 0}, {how->fds[1], POLLIN, 0}};
      const JobTime most = how->at_most.value_or(0);
      const timespec time{.tv_sec = most / kJobSecond, .tv_nsec = most % kJobSecond};
      ppoll(fds, std::size(fds), how->at_most ? &time : nullptr, nullptr);
      uint64_t count = 0;
      if (read(wake_fd_, &count, sizeof(count)) < 0) PCHECK(errno == EAGAIN);
    }
    asleep_.store(false);
  }

 private:
  int wake_fd_ = -1;
  std::atomic<bool> asleep_{false};
};

}  // namespace oneflow
