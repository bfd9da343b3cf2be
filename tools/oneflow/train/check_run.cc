#include "tools/oneflow/train/check_run.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/network/devices.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/oneflow/cli/progress_printer.h"

namespace oneflow {
namespace {

bool HasCopies(const proto::Program& program) {
  return std::any_of(program.actor().begin(), program.actor().end(), [](const proto::Actor& actor) {
    return actor.kernel() == "copy_in" || actor.kernel() == "copy_out";
  });
}

// The outcome goes there at the end, and a run must not find out then.
absl::Status CheckJobDir(const std::string& dir) {
  std::error_code error;
  if (dir.empty()) return absl::OkStatus();
  if (std::filesystem::is_directory(dir, error) && access(dir.c_str(), W_OK | X_OK) == 0) {
    return absl::OkStatus();
  }
  return InputError("--job_dir=" + dir, "is no folder that can be written to",
                    "make it, on a file system that all processes see");
}

// New ones are written beside those that are there, and not into one.
absl::Status CheckCheckpointDir(const std::string& dir) {
  std::error_code error;
  if (dir.empty() || !std::filesystem::exists(dir + "/manifest.json", error)) {
    return absl::OkStatus();
  }
  return InputError("--checkpoint_dir=" + dir, "is one checkpoint itself",
                    "give the folder that it is in, or one for a new run");
}

// The device must be there, whether or not others are met on it.
absl::Status CheckNetwork(const proto::Run& run, int processes) {
  for (const auto& [flag, given] : {std::pair("interface", run.has_interface()),
                                    std::pair("trust_network", run.has_trust_network())}) {
    if (processes > 1 || !given) continue;
    PrintNotice(absl::StrCat("warning: --", flag, " acts on nothing: one process has no others"));
  }
  if (!run.has_interface() && !run.has_trust_network()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<NetworkDevice> devices, NetworkDevices());
  return ChooseDevice({run.interface(), run.trust_network()}, devices).status();
}

}  // namespace

absl::Status CheckRunHere(const proto::Run& run, int processes) {
  RETURN_IF_ERROR(CheckJobDir(run.job_dir()));
  RETURN_IF_ERROR(CheckCheckpointDir(run.checkpoint_dir()));
  if (processes > 1 && run.logical_devices()) {
    return InputError("--logical_devices", "shares GPUs among the ranks of one process alone",
                      "leave it out, or start one process");
  }
  return CheckNetwork(run, processes);
}

absl::Status CheckHostLink(const proto::Run& run, const proto::Plan& plan) {
  if (!run.has_host_link()) return absl::OkStatus();
  if (plan.device_kind() != proto::CPU) {
    return InputError("--host_link", "is of CPU devices, and the plan is for GPUs",
                      "leave it out: a GPU has its own link");
  }
  if (std::any_of(plan.program().begin(), plan.program().end(), HasCopies)) {
    return absl::OkStatus();
  }
  PrintNotice(
      absl::StrCat("warning: --host_link=", FieldText(*FindRow(RunRows(), "host_link"), run),
                   " acts on nothing in this plan: it copies nothing to the memory of the "
                   "host"));
  return absl::OkStatus();
}

}  // namespace oneflow
