#include "tools/oneflow/cli/one_process.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/progress_printer.h"

namespace oneflow {

std::optional<std::string> Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::StatusOr<JobPlacement> PlacementFromFlags(
    const proto::Run& run,
    absl::FunctionRef<std::optional<std::string>(const std::string&)> environment) {
  PlacementFlags flags;
  flags.coordinator = FLAGS_coordinator;
  if (FLAGS_process_index != -1) flags.process_index = FLAGS_process_index;
  if (run.has_processes()) flags.processes = run.processes();
  return FindPlacement(flags, environment);
}

absl::StatusOr<bool> WorksAlone(const std::string& verb, const proto::Run& run) {
  // Nobody meets, so no address is needed.
  ASSIGN_OR_RETURN(const JobPlacement placement,
                   PlacementFromFlags(run, [](const std::string& name) {
                     return name == "ONEFLOW_COORDINATOR" ? "127.0.0.1:1" : Variable(name);
                   }));
  if (placement.processes == 1) return true;
  if (placement.starts_others) {
    PrintNotice(absl::StrFormat("%s runs in one process: --processes=%d starts no others", verb,
                                placement.processes));
  } else if (placement.process == 0) {
    PrintNotice(
        absl::StrFormat("%s runs in one process: this one, of %d", verb, placement.processes));
  } else {
    PrintNotice(absl::StrFormat(
        "%s runs in one process, process 0 of %d: this one, process %d, has nothing to do", verb,
        placement.processes, placement.process));
  }
  return placement.process == 0;
}

}  // namespace oneflow
