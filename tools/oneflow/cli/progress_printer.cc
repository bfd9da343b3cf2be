#include "tools/oneflow/cli/progress_printer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/oneflow/cli/caller.h"
#include "tools/oneflow/cli/progress_line.h"
#include "training/trainer/expert_load.h"

namespace oneflow {
namespace {

constexpr char kClearLine[] = "\r\033[K";

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
  return absl::StrCat(text, "  left ", DurationText(step.left_seconds));
}

// A "dumb" terminal, as in an editor, cannot clear a line.
bool ShowsLineInPlace() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

}  // namespace

void PrintNotice(const std::string& sentence) {
  if (const Caller* caller = CurrentCaller()) return caller->notice(sentence);
  std::fprintf(stderr, "oneflow: %s\n", sentence.c_str());
}

ProgressPrinter::ProgressPrinter(bool json)
    : json_(json), terminal_(ShowsLineInPlace()), utf8_(HasUtf8()) {}

void ProgressPrinter::Show(const TrainedStep& step) {
  const std::lock_guard lock(mutex_);
  const bool stays = step.is_last() || step.evaluated.has_value();
  if (json_) {
    std::fputs(MetricsLine(step).c_str(), stdout);
  } else if (!terminal_) {
    if (!stays && step.step % 10 != 0) return;  // a log file wants fewer lines
    std::printf("%s\n", ProgressText(step).c_str());
  } else {
    if (losses_.size() == kMostOfCurve) losses_.erase(losses_.begin());
    losses_.push_back(step.loss);
    line_ = stays ? "" : ProgressLine(step, losses_, TerminalColumns(), utf8_);
    std::printf("%s%s%s", kClearLine, stays ? ProgressText(step).c_str() : line_.c_str(),
                stays ? "\n" : "");
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
  if (line_.empty()) return PrintNotice(sentence);
  std::fputs(kClearLine, stdout);
  FlushProgress();
  PrintNotice(sentence);
  std::fputs(line_.c_str(), stdout);
  FlushProgress();
}

void ProgressPrinter::EndLine() {
  const std::lock_guard lock(mutex_);
  CloseLine();
}

void ProgressPrinter::CloseLine() {
  if (!line_.empty()) std::printf("\n");
  line_.clear();
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
