// Spinning: waiting for another core without giving up this one. It is meant only for events that
// another thread produces at once, and only if that thread has a core to run on.
#pragma once

#include <chrono>

namespace oneflow {

// Longer than a hand-over between two cores, shorter than what a park and a wake-up cost.
inline constexpr std::chrono::microseconds kSpin{20};

inline void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Spins until done(), for at most `longest`; returns done() at the end. The clock is read rarely,
// because reading it costs more than a call of done().
template <typename Done>
bool SpinUntil(Done done, std::chrono::nanoseconds longest = kSpin) {
  const auto end = std::chrono::steady_clock::now() + longest;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      Relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace oneflow
