// MetricsLog: takes the numbers of each step from the run's host worker and, on a separate thread,
// writes them as JSON lines to a file and as events of TensorBoard to another, and hands them to
// whoever shows the progress.
//
// Invariants:
//  1. Record() allocates nothing and never blocks: it fills a preallocated entry and publishes its
//  count.
//  2. Entries are written in step order, each once. The last step of a chunk is held back until
//     FinishChunk(), because a validation may belong to it.
//  3. MFU is at most 1. It is the rate of the last few steps, for the interval between two records
//     is not what one step took where the host worker was late; and it is relative to the highest
//     rate seen, measured or reached: a measurement that others disturbed was too low.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "training/trainer/event_file.h"
#include "training/trainer/mean_loss.h"
#include "training/trainer/notice.h"

namespace oneflow {

// A step of training that is done.
struct TrainedStep {
  int64_t step = 0;              // from 0 on
  int64_t last_step = 0;         // the run's, exclusive
  std::optional<double> loss;    // none: no label counts
  std::optional<double> labels;  // labels that count; none: the plan does not count them
  double learning_rate = 0, norm = 0;
  double tokens_per_second = 0, seconds = 0;
  double left_seconds = 0;  // the rest of the run, at the rate of the last steps, with pauses
  double promised_step_seconds = 0;  // 0: nothing was promised
  std::span<const double> counts;    // choices of experts (expert_load.h), while it is handed on
  std::optional<double> mfu, host_seconds;  // none: not known
  std::optional<MeanLoss> evaluated;        // none: no validation follows the step

  bool is_last() const { return step + 1 == last_step; }
};
// Its line of the file, with the line's end.
std::string MetricsLine(const TrainedStep& step);
// JSON has no NaN and no infinity: null, as for a loss of no labels.
std::string JsonNumber(std::optional<double> value);

// Work of a run between its steps.
enum Pause { kValidation, kCheckpoint, kPauses };
// Pauses come after every so many steps and after the last; 0: after the last alone.
struct PauseTimes {
  bool is_made = false;
  int64_t every = 0;
  double steps = 0;    // so many take about as long as one pause, until one is measured
  double seconds = 0;  // the last one took; 0: there was none yet
};

struct MetricsOptions {
  std::string path;  // JSON lines; empty: none
  EventFileOptions events;
  int64_t last_step = 0;  // the run's, exclusive
  double tokens_a_step = 0;
  size_t counts = 0;                 // choices of experts in each report (expert_load.h)
  double flops_a_step = 0;           // the model's: ModelRates
  double machine_flops = 0;          // the machine's own matrix rate, as measured; 0: unknown
  double promised_step_seconds = 0;  // promise.h; 0: nothing was promised
  // On asynchronous devices: the working time of the worker of each of `ranks` ranks since the run
  // began, up to `now`. Called by the host worker; null: of CPUs.
  int ranks = 0;
  std::function<void(std::chrono::steady_clock::time_point now, std::span<int64_t> nanoseconds)>
      worked;
  PauseTimes pauses[kPauses] = {};  // by Pause
  // The end of the warning that no label of a step counts: why, and what to do.
  std::string why_no_labels;
  // Called for each step when its line is written, on one thread at a time; null: nobody listens.
  std::function<void(const TrainedStep& step)> on_step;
  // By Evaluated.
  std::function<void(int64_t steps_done, const MeanLoss& loss)> on_evaluated;
  Notice notice;
  // Asked before each write; it may wait. Once it has said no, nothing is written any more, and
  // nobody is called; null: always yes.
  std::function<bool()> may_write;
};

class MetricsLog {
 public:
  explicit MetricsLog(MetricsOptions options);
  ~MetricsLog();

  // Creates the files; one of lines that is there is moved to FILE.old-N, and a notice says so. If
  // the first step to come is not 0, goes on with the file: lines of steps that will be made again
  // go.
  absl::Status Open(int64_t first_step);
  bool is_open() const { return is_open_; }  // Open has succeeded: the run has begun
  // Makes room for `steps` records of steps first .. first + steps - 1 and starts their clock.
  void StartChunk(int64_t first, int64_t steps, std::vector<double> learning_rates);
  // values: as RunContext::report gives them. Called by the host worker, once a step, in order.
  void Record(int64_t step, std::span<const double> values);
  // Writes what is left, the last step with the validation loss if there is one; the run is over,
  // and steps that it did not report are not waited for. `steps`: those it has done, none if it
  // failed. Fails when a line could not be written to the file, or when one of them was not
  // reported.
  absl::Status FinishChunk(const std::optional<MeanLoss>& evaluated, std::optional<int64_t> steps);
  // After the last chunk.
  void End(bool succeeded) {
    if (events_.is_wanted() && MayWrite()) events_.End(succeeded);
  }
  // Between chunks: the time of a pause, for the time that is left.
  void Paused(Pause pause, double seconds) { options_.pauses[pause].seconds = seconds; }

  // The validation loss of a checkpoint that nothing is left to train of: it is of no step that was
  // run, and not in the file.
  void Evaluated(int64_t steps_done, const MeanLoss& loss) const {
    if (options_.on_evaluated) options_.on_evaluated(steps_done, loss);
  }

  // The losses of all steps so far. Requires that no chunk of steps runs.
  struct Losses {
    std::optional<int64_t> first_step;
    // Steps whose loss or gradient was not finite: where updates wait for the norm, they left the
    // weights as they were.
    int64_t nonfinite = 0;
    std::optional<int64_t> first_nonfinite;
    int64_t without_labels = 0;
    std::optional<double> last;  // the last step's that had one
  };
  const Losses& losses() const { return losses_; }

 private:
  struct Entry {
    double loss = 0, norm = 0, labels = kNotCounted;
    double host_seconds = 0;  // the most that a rank's worker has worked since the step before
    std::chrono::steady_clock::time_point time;
  };
  absl::Status OpenFile(int64_t first_step);
  double HostSeconds(std::chrono::steady_clock::time_point now);
  void WriteLoop(const std::stop_token& stop);
  void Write(size_t index, const std::optional<MeanLoss>& evaluated);
  void Count(int64_t step, const Entry& entry);  // in losses_
  double LeftSeconds(int64_t steps_done) const;
  void Append(const std::string& line);  // to the file
  absl::Status FileStatus() const;
  bool MayWrite();
  // The counts of choices of an entry; empty: none were reported.
  std::span<double> Counts(size_t index);
  // The MFU of the steps up to entry `index`; raises machine_flops to their rate.
  double Mfu(size_t index);

  MetricsOptions options_;
  std::ofstream file_;
  EventFile events_;
  bool is_open_ = false;
  int file_error_ = 0;     // errno of its first failure
  bool may_write_ = true;  // the same thread's as written_
  bool warned_of_dropped_ = false;
  double smoothed_seconds_ = 0;
  // The writer's, then the control thread's, as written_ is.
  Losses losses_;

  // Written by StartChunk while no run goes on.
  int64_t first_ = 0;
  std::vector<Entry> entries_;
  std::vector<double> counts_;  // options_.counts of each entry
  std::vector<double> rates_;
  std::chrono::steady_clock::time_point start_;
  std::jthread writer_;

  std::vector<int64_t> worked_, worked_before_;  // by rank; the host worker's
  std::atomic<size_t> recorded_{0};              // written by the host worker, read by the writer
  size_t written_ = 0;  // the writer's; the control thread's once the writer has joined
};

// The shortest text that reads back as the same double.
std::string ExactDouble(double value);

}  // namespace oneflow
