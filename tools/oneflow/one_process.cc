#include "tools/oneflow/one_process.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "actor_runtime/job/place.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/flags.h"

namespace oneflow {

absl::StatusOr<bool> WorksAlone(const std::string& verb) {
  PlaceFlags flags;
  if (FLAGS_process_index >= 0) flags.process_index = FLAGS_process_index;
  if (FLAGS_processes != 0) flags.processes = FLAGS_processes;
  // Nobody meets, so no address is needed.
  ASSIGN_OR_RETURN(const JobPlace place,
                   FindPlace(flags, [](const std::string& name) -> std::optional<std::string> {
                     if (name == "ONEFLOW_COORDINATOR") return "127.0.0.1:1";
                     const char* value = std::getenv(name.c_str());
                     return value == nullptr ? std::nullopt : std::optional<std::string>(value);
                   }));
  if (place.processes == 1) return true;
  if (place.starts_others) {
    std::fprintf(stderr, "oneflow: %s runs in one process: --processes=%d starts no others\n",
                 verb.c_str(), place.processes);
  } else if (place.process == 0) {
    std::fprintf(stderr, "oneflow: %s runs in one process: this one, of %d\n", verb.c_str(),
                 place.processes);
  } else {
    std::fprintf(stderr,
                 "oneflow: %s runs in one process, process 0 of %d: this one, process %d, has "
                 "nothing to do\n",
                 verb.c_str(), place.processes, place.process);
  }
  return place.process == 0;
}

}  // namespace oneflow
