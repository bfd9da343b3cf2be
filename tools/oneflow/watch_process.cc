#include "tools/oneflow/watch_process.h"

#include <unistd.h>

#include <algorithm>

#include "tools/oneflow/flags.h"

namespace oneflow {

WatchdogOptions WatchFor(Processes* processes, JobWatch* watch, bool on_gpus) {
  const auto note = [processes, watch](const char* name, const auto& message) {
    if (processes == nullptr) return watch->Note(0, name, message.SerializeAsString());
    processes->member().Note(name, message.SerializeAsString());
  };
  WatchdogOptions options{.stall_seconds = FLAGS_stall_seconds, .ends = on_gpus};
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) options.host = host;
  // Process 0 hears of some hundred processes a second, at most.
  if (processes != nullptr) options.waits_seconds = std::max(1.0, processes->count() / 100.0);
  options.on_waits = [note](const proto::ProcessWaits& w) { note(JobWatch::kWaits, w); };
  options.on_stall = [note](const proto::ProcessStall& s) { note(JobWatch::kStall, s); };
  if (processes != nullptr && !processes->IsFirst()) return options;
  options.on_look = [processes, watch] {
    // Whoever was given up writes nothing.
    if (processes == nullptr || processes->member().MayWrite()) watch->Look();
  };
  return options;
}

}  // namespace oneflow
