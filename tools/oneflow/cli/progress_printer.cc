#include "tools/oneflow/cli/progress_printer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/time_text.h"
#include "tools/oneflow/cli/caller.h"
#include "training/trainer/expert_load.h"

namespace oneflow {
namespace {

std::string Duration(double seconds) {
  const long total = std::lround(seconds);
  if (total < 3600) return absl::StrFormat("%d:%02d", total / 60, total % 60);
  return absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
}

// A loss of no labels is none.
std::string LossText(std::optional<double> loss) { return loss ? NumberText(*loss) : "none"; }

std::string ProgressText(const TrainedStep& step) {
  std::string text = absl::StrFormat("step %d/%d  loss %s  %.0f tokens/s", step.step + 1,
                                     step.last_step, LossText(step.loss), step.tokens_per_second);
  if (step.mfu) absl::StrAppendFormat(&text, "  MFU %.0f%%", 100 * *step.mfu);
  absl::StrAppend(&text, ExpertLoadText(step.counts));
  if (step.host_seconds) {
    absl::StrAppendFormat(&text, "  host %.0f%%", 100 * *step.host_seconds / step.seconds);
  }
  if (step.evaluated) {
    absl::StrAppend(&text, "  validation loss ", LossText(step.evaluated->value()));
  }
  return absl::StrCat(text, "  left ", Duration(step.left_seconds));
}

}  // namespace

void PrintNotice(const std::string& sentence) {
  if (const Caller* caller = CurrentCaller()) return caller->notice(sentence);
  std::fprintf(stderr, "oneflow: %s\n", sentence.c_str());
}

ProgressPrinter::ProgressPrinter(bool json) : json_(json), terminal_(isatty(STDOUT_FILENO) != 0) {}

void ProgressPrinter::Show(const TrainedStep& step) {
  const std::lock_guard lock(mutex_);
  if (json_) {
    std::fputs(MetricsLine(step).c_str(), stdout);
  } else {
    const bool ends = step.is_last() || step.evaluated.has_value();
    if (!terminal_ && !ends && step.step % 10 != 0) return;  // a log file wants fewer lines
    line_open_ = terminal_ && !ends;
    std::printf("%s%s%s", terminal_ ? "\r\033[K" : "", ProgressText(step).c_str(),
                line_open_ ? "" : "\n");
  }
  FlushProgress();
}

void ProgressPrinter::ShowEvaluation(int64_t steps_done, const MeanLoss& mean) {
  const std::optional<double> loss = mean.value();
  const std::lock_guard lock(mutex_);
  CloseLine();
  const std::string text =
      json_ ? absl::StrCat("{\"steps_done\": ", steps_done, ", \"eval_loss\": ", JsonNumber(loss),
                           "}\n")
            : absl::StrCat("after step ", steps_done, ": validation loss ", LossText(loss), "\n");
  std::fputs(text.c_str(), stdout);
}

void ProgressPrinter::Notify(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  CloseLine();
  PrintNotice(sentence);
}

void ProgressPrinter::EndLine() {
  const std::lock_guard lock(mutex_);
  CloseLine();
}

void ProgressPrinter::CloseLine() {
  if (line_open_) std::printf("\n");
  line_open_ = false;
  FlushProgress();
}

void FlushProgress() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};
  if (poll(&reader, 1, 0) != 1 || (reader.revents & (POLLERR | POLLHUP)) == 0) return;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  if (dup2(nowhere, STDOUT_FILENO) >= 0) std::clearerr(stdout);
  close(nowhere);
}

}  // namespace oneflow
