// Lets a thread wait for a condition that another one fulfils.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace oneflow {

// Called with the lock held; returns with it held, once `is_true` is, which is asked under the lock
// alone. Whatever may make it true notifies the condition. A driver of many processes on one thread
// has its own function that lets the others continue.
using WaitUntil =
    std::function<void(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                       const std::function<bool()>& is_true)>;

inline void WaitOnThread(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         const std::function<bool()>& is_true) {
  changed.wait(lock, is_true);
}

}  // namespace oneflow
