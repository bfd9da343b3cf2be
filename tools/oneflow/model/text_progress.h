// TextProgress: a line on stderr every other second while text is encoded.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "oneflow_core/print/plan_text.h"

namespace oneflow {

class TextProgress {
 public:
  // `all`: bytes of the files. `what` begins each line.
  explicit TextProgress(int64_t all, const char* what = "") : all_(all), what_(what) {}

  // Bytes of text that are done, and of the files, up to the begin of the next text.
  void Add(int64_t bytes, int64_t at) {
    done_ += bytes;
    if (SecondsSince(reported_) < 2) return;
    reported_ = Clock::now();
    std::fprintf(stderr, "%s%s of %s, %.1f MB/s\n", what_, BytesText(at).c_str(),
                 BytesText(all_).c_str(), bytes_per_second() / 1e6);
  }
  double seconds() const { return SecondsSince(start_); }
  double bytes_per_second() const { return static_cast<double>(done_) / seconds(); }

 private:
  using Clock = std::chrono::steady_clock;
  static double SecondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const int64_t all_;
  const char* const what_;
  int64_t done_ = 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point reported_ = start_;
};

}  // namespace oneflow
