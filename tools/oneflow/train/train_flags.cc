#include "tools/oneflow/train/train_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/load.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "training/data/token_dataset.h"
#include "training/job/member_options.h"

namespace oneflow {
namespace {

// A number of steps, or of batches that are read as steps are.
absl::Status CheckSteps(const std::string& flag, int64_t steps) {
  if (steps >= 1 && steps <= TokenSource::kMost) return absl::OkStatus();
  return InputError(flag + std::to_string(steps), "is out of range",
                    "use at least 1 and at most " + std::to_string(TokenSource::kMost));
}

bool HasCopies(const proto::Program& program) {
  return std::any_of(program.actor().begin(), program.actor().end(), [](const proto::Actor& actor) {
    return actor.kernel() == "copy_in" || actor.kernel() == "copy_out";
  });
}

// The outcome goes there at the end, and a run must not find out then.
absl::Status CheckJobDir() {
  std::error_code error;
  if (FLAGS_job_dir.empty()) return absl::OkStatus();
  if (std::filesystem::is_directory(FLAGS_job_dir, error) &&
      access(FLAGS_job_dir.c_str(), W_OK | X_OK) == 0) {
    return absl::OkStatus();
  }
  return InputError("--job_dir=" + FLAGS_job_dir, "is no folder that can be written to",
                    "make it, on a file system that all processes see");
}

// New ones are written beside those that are there, and not into one.
absl::Status CheckCheckpointDir() {
  std::error_code error;
  const std::string& dir = FLAGS_checkpoint_dir;
  if (dir.empty() || !std::filesystem::exists(dir + "/manifest.json", error)) {
    return absl::OkStatus();
  }
  return InputError("--checkpoint_dir=" + dir, "is one checkpoint itself",
                    "give the folder that it is in, or one for a new run");
}

}  // namespace

absl::Status CheckTrainNumbers(const Arguments& args, bool has_checkpoint_dir) {
  RETURN_IF_ERROR(CheckSteps("--steps=", FLAGS_steps));
  if (FLAGS_checkpoint_every > 0 && !has_checkpoint_dir) {
    return InputError("--checkpoint_every", "there is no folder to write to",
                      "add --checkpoint_dir=DIR");
  }
  if (FLAGS_keep > 0 && !has_checkpoint_dir) {
    return InputError("--keep", "there are no checkpoints to keep", "add --checkpoint_dir=DIR");
  }
  if (!(FLAGS_stall_seconds >= 0)) {
    return InputError(absl::StrCat("--stall_seconds=", FLAGS_stall_seconds), "must not be negative",
                      "use e.g. 60, or 0 for never");
  }
  RETURN_IF_ERROR(HostLinkFromFlags().status());
  RETURN_IF_ERROR(CheckJoinSeconds(FLAGS_join_seconds));
  RETURN_IF_ERROR(CheckSilenceSeconds(FLAGS_silence_seconds));
  RETURN_IF_ERROR(CheckSteps("--eval_batches=", FLAGS_eval_batches));
  for (const char* flag : {"eval_every", "eval_batches"}) {
    if (!args.Given(flag) || !FLAGS_eval_data.empty() || FLAGS_eval_fraction != 0) continue;
    return InputError(std::string("--") + flag, "there is nothing to validate on",
                      "add --eval_data=FILE or --eval_fraction=0.1");
  }
  if (!FLAGS_eval_data.empty() && FLAGS_eval_fraction != 0) {
    return InputError("--eval_fraction", "cannot be given together with --eval_data",
                      "leave one of the two out");
  }
  if (!(FLAGS_eval_fraction >= 0 && FLAGS_eval_fraction < 1)) {
    return InputError(absl::StrCat("--eval_fraction=", FLAGS_eval_fraction),
                      "must be at least 0 and below 1", "use a number such as 0.1");
  }
  return absl::OkStatus();
}

absl::StatusOr<HostLinkSpeed> HostLinkFromFlags() {
  HostLinkSpeed speed;
  const std::string& text = FLAGS_host_link;
  if (text.empty()) return speed;
  const size_t colon = text.find(':');
  const auto to = ParseBytes("", text.substr(0, colon));
  const auto from = ParseBytes("", colon == text.npos ? "" : text.substr(colon + 1));
  if (!to.ok() || !from.ok()) {
    return InputError("--host_link=" + text, "is not two rates",
                      "write bytes a second to the host and from it, 1 or more each: e.g. 2GB:2GB");
  }
  speed.to_host = static_cast<double>(*to);
  speed.from_host = static_cast<double>(*from);
  return speed;
}

absl::Status CheckHostLink(const proto::Plan& plan) {
  if (FLAGS_host_link.empty()) return absl::OkStatus();
  if (plan.device_kind() != proto::CPU) {
    return InputError("--host_link", "is of CPU devices, and the plan is for GPUs",
                      "leave it out: a GPU has its own link");
  }
  if (std::any_of(plan.program().begin(), plan.program().end(), HasCopies)) {
    return absl::OkStatus();
  }
  std::fprintf(
      stderr,
      "oneflow: warning: --host_link=%s acts on nothing in this plan: it copies nothing to "
      "the memory of the host\n",
      FLAGS_host_link.c_str());
  return absl::OkStatus();
}

absl::Status CheckTrainFlags(const Arguments& args, int processes) {
  RETURN_IF_ERROR(CheckTrainNumbers(args, !FLAGS_checkpoint_dir.empty()));
  if (FLAGS_predict && FLAGS_trace.empty()) {
    return InputError("--predict", "is written into a trace, and there is none",
                      "give --trace=FILE, too");
  }
  ASSIGN_OR_RETURN(const Resume resume, ResumeFromFlags());
  if (resume == Resume::kAlways && !FLAGS_init_from.empty()) {
    return InputError("--init_from",
                      "cannot be given together with --resume: weights come from one",
                      "leave one of the two out, or write --resume=auto");
  }
  RETURN_IF_ERROR(CheckJobDir());
  RETURN_IF_ERROR(CheckCheckpointDir());
  RETURN_IF_ERROR(ThreadsFromFlags().status());
  if (processes > 1 && FLAGS_logical_devices) {
    return InputError("--logical_devices", "shares GPUs among the ranks of one process alone",
                      "leave it out, or start one process");
  }
  for (const char* flag : {"interface", "trust_network"}) {
    if (processes > 1 || !args.Given(flag)) continue;
    PrintNotice(absl::StrCat("warning: --", flag, " acts on nothing: one process has no others"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Resume> ResumeFromFlags() {
  ASSIGN_OR_RETURN(const Resume resume, ParseResume(FLAGS_resume));
  if (resume == Resume::kNever || !FLAGS_checkpoint_dir.empty()) return resume;
  return InputError("--resume", "there is no folder to resume from", "add --checkpoint_dir=DIR");
}

}  // namespace oneflow
