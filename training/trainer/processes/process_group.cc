#include "training/trainer/processes/process_group.h"

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::Status CheckDivides(int processes, int ranks) {
  if (ranks % processes == 0) return absl::OkStatus();
  return InputError(absl::StrCat("--processes=", processes),
                    absl::StrCat("the plan's ", ranks,
                                 " devices cannot be divided evenly among so many processes"),
                    "use a number that divides them");
}

absl::Status ProcessGroup::Divide(int ranks) {
  RETURN_IF_ERROR(CheckDivides(count(), ranks));
  each_ = ranks / count();
  return absl::OkStatus();
}

void SoleProcess::Configure(RuntimeOptions* options) {
  if (options->threads == 0) options->threads = Cores();
}

absl::StatusOr<std::string> ProcessGroup::Fetch(const std::string& key) {
  return absl::FailedPreconditionError(absl::StrCat("nobody posts ", key));
}

}  // namespace oneflow
