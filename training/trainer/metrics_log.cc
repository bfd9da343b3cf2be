#include "training/trainer/metrics_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/trainer/expert_load.h"

namespace oneflow {
namespace {

// A run that was killed had gone past its last checkpoint, perhaps to the middle of a line.
absl::Status KeepStepsBefore(const std::string& path, int64_t first_step) {
  std::error_code ignored;  // an error here is one of opening, too
  if (!std::filesystem::is_regular_file(path, ignored)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::string kept;
  for (size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1) {
    const std::string line = text.substr(at, end + 1 - at);
    long long step = 0;
    if (std::sscanf(line.c_str(), "{\"step\": %lld,", &step) != 1 || step < first_step)
      kept += line;
  }
  return kept == text ? absl::OkStatus() : WriteFile(path, kept);
}

// The file of another run is moved to FILE.old-N, as its checkpoints are to old-N. A device or a
// pipe keeps nothing.
absl::Status SetAside(const std::string& path, const Notice& notice) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::is_empty(path, error)) return absl::OkStatus();
  const fs::path file = fs::canonical(path, error);  // a symbolic link stays one
  fs::path aside;
  for (int n = 1; aside.empty() || fs::exists(aside, error); ++n) {
    aside = file.string() + ".old-" + std::to_string(n);
  }
  if (!error) fs::rename(file, aside, error);
  if (error) {
    return WriteError("--metrics=" + path, "is of an earlier run and cannot be moved aside",
                      error.value(), "give another file");
  }
  Notify(notice, "the metrics of an earlier run are moved to " + aside.string());
  return absl::OkStatus();
}

constexpr size_t kStepsOfMfu = 8;

}  // namespace

std::string ExactDouble(double value) {
  if (std::isnan(value)) return "nan";  // its sign says nothing
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end);
}

std::string JsonNumber(std::optional<double> value) {
  return value && std::isfinite(*value) ? ExactDouble(*value) : "null";
}

std::string MetricsLine(const TrainedStep& step) {
  std::string line = "{\"step\": " + std::to_string(step.step) +
                     ", \"loss\": " + JsonNumber(step.loss) +
                     ", \"learning_rate\": " + JsonNumber(step.learning_rate) +
                     ", \"grad_norm\": " + JsonNumber(step.norm) +
                     ", \"tokens_per_second\": " + JsonNumber(step.tokens_per_second) +
                     ", \"step_seconds\": " + JsonNumber(step.seconds);
  if (step.labels) line += ", \"labels\": " + JsonNumber(step.labels);
  if (step.mfu) line += ", \"mfu\": " + JsonNumber(*step.mfu);
  if (step.promised_step_seconds > 0) {
    line += ", \"promised_step_seconds\": " + JsonNumber(step.promised_step_seconds);
  }
  line += ExpertLoadJson(step.counts);
  if (step.host_seconds) line += ", \"host_seconds\": " + JsonNumber(*step.host_seconds);
  if (step.evaluated) line += ", \"eval_loss\": " + JsonNumber(step.evaluated->value());
  return line + "}\n";
}

MetricsLog::MetricsLog(MetricsOptions options)
    : options_(std::move(options)), events_(std::move(options_.events)) {}

MetricsLog::~MetricsLog() = default;

absl::Status MetricsLog::Open(int64_t first_step) {
  if ((events_.is_wanted() || !options_.path.empty()) && MayWrite()) {
    RETURN_IF_ERROR(events_.Open(first_step));  // first: it moves nothing
    if (!options_.path.empty()) RETURN_IF_ERROR(OpenFile(first_step));
  }
  is_open_ = true;
  return absl::OkStatus();
}

absl::Status MetricsLog::OpenFile(int64_t first_step) {
  RETURN_IF_ERROR(first_step > 0 ? KeepStepsBefore(options_.path, first_step)
                                 : SetAside(options_.path, options_.notice));
  errno = 0;
  file_.open(options_.path, first_step > 0 ? std::ios::app : std::ios::trunc);
  if (!file_) file_error_ = errno;
  return FileStatus();
}

bool MetricsLog::MayWrite() {
  if (may_write_ && options_.may_write) may_write_ = options_.may_write();
  return may_write_;
}

// Whoever follows the file sees each line at once.
void MetricsLog::Append(const std::string& line) {
  if (!file_.is_open()) return;
  errno = 0;
  file_ << line << std::flush;
  if (!file_ && file_error_ == 0) file_error_ = errno;
}

absl::Status MetricsLog::FileStatus() const {
  if (file_) return absl::OkStatus();
  return WriteError("--metrics=" + options_.path, "cannot be written",
                    file_error_ == 0 ? EIO : file_error_, "check its folder and the disk");
}

void MetricsLog::StartChunk(int64_t first, int64_t steps, std::vector<double> learning_rates) {
  first_ = first;
  entries_.assign(static_cast<size_t>(steps), {});
  counts_.assign(entries_.size() * options_.counts, 0.0);
  rates_ = std::move(learning_rates);
  recorded_ = 0;
  written_ = 0;
  worked_.assign(options_.ranks, 0);
  worked_before_.assign(options_.ranks, 0);
  start_ = std::chrono::steady_clock::now();
  // One step is written when it is done.
  if (steps > 1) writer_ = std::jthread([this](const std::stop_token& stop) { WriteLoop(stop); });
}

void MetricsLog::Record(int64_t step, std::span<const double> values) {
  Entry& entry = entries_[static_cast<size_t>(step - first_)];
  entry.loss = values[kReportedLoss];
  entry.norm = values[kReportedNorm];
  entry.labels = values[kReportedLabels];
  const std::span<const double> choices = values.subspan(kReportedScalars);
  const std::span<double> counts = Counts(static_cast<size_t>(step - first_));
  std::copy_n(choices.begin(), std::min(counts.size(), choices.size()), counts.begin());
  entry.time = std::chrono::steady_clock::now();
  if (options_.worked) entry.host_seconds = HostSeconds(entry.time);
  recorded_.fetch_add(1, std::memory_order_release);
  recorded_.notify_one();
}

std::span<double> MetricsLog::Counts(size_t index) {
  return std::span(counts_).subspan(index * options_.counts, options_.counts);
}

double MetricsLog::HostSeconds(std::chrono::steady_clock::time_point now) {
  options_.worked(now, worked_);
  int64_t most = 0;
  for (size_t r = 0; r < worked_.size(); ++r) most = std::max(most, worked_[r] - worked_before_[r]);
  worked_before_.swap(worked_);
  return static_cast<double>(most) * 1e-9;
}

void MetricsLog::WriteLoop(const std::stop_token& stop) {
  // Wakes on every record; FinishChunk wakes it for good by setting `stop` and notifying.
  while (true) {
    const size_t n = recorded_.load(std::memory_order_acquire);
    if (stop.stop_requested()) return;
    while (written_ < n && written_ + 1 < entries_.size())
      Write(written_, std::nullopt), ++written_;
    if (n >= entries_.size()) return;
    recorded_.wait(n, std::memory_order_acquire);
  }
}

absl::Status MetricsLog::FinishChunk(const std::optional<MeanLoss>& evaluated,
                                     std::optional<int64_t> steps) {
  const size_t recorded = recorded_.load();
  const bool all = recorded >= entries_.size();
  if (!all) {
    writer_.request_stop();
    recorded_.fetch_add(1);  // the writer waits for a change of this: wake it
    recorded_.notify_one();
  }
  if (writer_.joinable()) writer_.join();
  if (!all) entries_.resize(recorded);
  for (; written_ < entries_.size(); ++written_) {
    Write(written_, written_ + 1 == entries_.size() ? evaluated : std::nullopt);
  }
  if (steps && recorded < static_cast<size_t>(*steps)) {
    return InputError("plan, program train",
                      "reports the loss of " + std::to_string(recorded) + " steps of those it took",
                      "the plan was edited or damaged; compile it again");
  }
  return FileStatus();
}

double MetricsLog::Mfu(size_t index) {
  const size_t first = index + 1 < kStepsOfMfu ? 0 : index + 1 - kStepsOfMfu;
  const auto before = first == 0 ? start_ : entries_[first - 1].time;
  const double seconds = std::chrono::duration<double>(entries_[index].time - before).count();
  if (seconds <= 0) return 1;
  const double steps = static_cast<double>(index + 1 - first);
  const double rate = steps * options_.flops_a_step / seconds;
  options_.machine_flops = std::max(options_.machine_flops, rate);
  return rate / options_.machine_flops;
}

void MetricsLog::Count(int64_t step, const Entry& entry) {
  if (!losses_.first_step) losses_.first_step = step;
  if (!std::isfinite(entry.norm) || !std::isfinite(entry.loss)) {
    if (++losses_.nonfinite == 1) losses_.first_nonfinite = step;
  }
  if (entry.labels != 0) {
    losses_.last = entry.loss;
  } else if (++losses_.without_labels == 1 && MayWrite()) {
    Notify(options_.notice, absl::StrCat("warning: no label of step ", step + 1,
                                         " counts, so it has no loss: ", options_.why_no_labels));
  }
}

double MetricsLog::LeftSeconds(int64_t steps_done) const {
  const int64_t last = options_.last_step;
  double seconds = static_cast<double>(last - steps_done) * smoothed_seconds_;
  for (const PauseTimes& pause : options_.pauses) {
    if (!pause.is_made || steps_done >= last) continue;
    const int64_t every = pause.every;
    const int64_t before_last = every > 0 ? (last - 1) / every - steps_done / every : 0;
    const double each = pause.seconds > 0 ? pause.seconds : pause.steps * smoothed_seconds_;
    seconds += static_cast<double>(before_last + 1) * each;
  }
  return seconds;
}

void MetricsLog::Write(size_t index, const std::optional<MeanLoss>& evaluated) {
  const Entry& entry = entries_[index];
  Count(first_ + static_cast<int64_t>(index), entry);
  if (!MayWrite()) return;
  TrainedStep step{.step = first_ + static_cast<int64_t>(index),
                   .last_step = options_.last_step,
                   .learning_rate = rates_[index],
                   .norm = entry.norm,
                   .promised_step_seconds = options_.promised_step_seconds,
                   .counts = Counts(index),
                   .evaluated = evaluated};
  if (entry.labels != 0) step.loss = entry.loss;
  if (entry.labels != kNotCounted) step.labels = entry.labels;
  if (DroppedShare(step.counts) > kMuchDropped && !warned_of_dropped_) {
    warned_of_dropped_ = true;
    Notify(options_.notice, DroppedWarning(step.step + 1, DroppedShare(step.counts)));
  }
  const auto before = index == 0 ? start_ : entries_[index - 1].time;
  step.seconds = std::chrono::duration<double>(entry.time - before).count();
  smoothed_seconds_ =
      smoothed_seconds_ == 0 ? step.seconds : 0.8 * smoothed_seconds_ + 0.2 * step.seconds;
  step.left_seconds = LeftSeconds(step.step + 1);
  step.tokens_per_second = options_.tokens_a_step / step.seconds;
  if (options_.machine_flops > 0) step.mfu = Mfu(index);
  if (options_.worked) step.host_seconds = entry.host_seconds;
  Append(MetricsLine(step));  // before it is shown: the file has what people see
  events_.Write(step);
  if (options_.on_step) options_.on_step(step);
}

}  // namespace oneflow
