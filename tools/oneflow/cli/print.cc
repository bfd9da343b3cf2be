#include "tools/oneflow/cli/print.h"

#include <unistd.h>

#include <cstdio>

#include "tools/oneflow/cli/caller.h"

namespace oneflow {

absl::Status Print(const std::string& text) {
  if (const Caller* caller = CurrentCaller()) {
    caller->print(text);
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return absl::OkStatus();
}

void ProgressLine::Print(const std::string& line) {
  if (const Caller* caller = CurrentCaller()) return caller->progress(line);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(isatty(STDERR_FILENO) != 0 ? 900 : 5000)) return;
  last_ = now;
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace oneflow
