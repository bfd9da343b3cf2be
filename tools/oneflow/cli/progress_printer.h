// ProgressPrinter: shows the progress of a training: to people as a line on the terminal that is
// written over, or every tenth step in a file; to programs as JSON lines. Notices go to stderr.
//
//   ProgressPrinter printer(/*json=*/false);
//   observer.on_step = [&](const TrainedStep& step) { printer.Show(step); };
//   observer.notice = [&](const std::string& sentence) { printer.Notify(sentence); };
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "training/trainer/metrics_log.h"

namespace oneflow {

// "oneflow: SENTENCE" on stderr, or to the verb's caller (caller.h).
void PrintNotice(const std::string& sentence);

// Any thread.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool json);
  // Ends the open line: what comes next may be an error.
  ~ProgressPrinter() { EndLine(); }
  bool json() const { return json_; }

  void Show(const TrainedStep& step);
  // The validation loss of a checkpoint that nothing is left to train of.
  void ShowEvaluation(int64_t steps_done, const MeanLoss& mean);
  void Notify(const std::string& sentence);
  // The next text of others begins on a line of its own.
  void EndLine();

 private:
  void CloseLine();  // under mutex_

  const bool json_, terminal_;
  std::mutex mutex_;
  bool line_open_ = false;  // the terminal shows a progress line without its end; under mutex_
};

// Flushes stdout. If whoever read it has left (`oneflow train | head`), all that comes goes
// nowhere, and nothing has failed. Requires that SIGPIPE is ignored.
void FlushProgress();

}  // namespace oneflow
