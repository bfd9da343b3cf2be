#include "training/trainer/trace_file.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "actor_runtime/exec/trace_events.h"
#include "actor_runtime/exec/trace_perfetto.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "planning/simulate/simulate_on.h"

namespace oneflow {
namespace {

int64_t ClockNow(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// From the clock of traces to that of beats.
void AlignToBeats(proto::ProcessTrace* trace) {
  int64_t error = -1, offset = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t before = ClockNow(CLOCK_MONOTONIC), beats = ClockNow(CLOCK_BOOTTIME);
    const int64_t width = ClockNow(CLOCK_MONOTONIC) - before;
    if (error >= 0 && width / 2 >= error) continue;
    error = width / 2;
    offset = beats - (before + error);
  }
  trace->set_clock_offset(offset);
  trace->set_clock_error(error);
}

proto::ProcessTrace MakeProcessTrace(const Runtime& runtime, const ProcessGroup& group) {
  proto::ProcessTrace trace = runtime.TraceEvents();
  trace.set_process(group.index());
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) trace.set_host(host);
  AlignToBeats(&trace);
  if (group.IsFirst()) return trace;
  const ProcessGroup::ClockOffset clock = group.AwaitClockOffset();
  trace.set_clock_offset(trace.clock_offset() + static_cast<int64_t>(clock.seconds * 1e9));
  trace.set_clock_error(trace.clock_error() +
                        std::max<int64_t>(0, static_cast<int64_t>(clock.error_seconds * 1e9)));
  return trace;
}

absl::StatusOr<std::vector<proto::ProcessTrace>> Parse(std::span<const std::string> parts) {
  std::vector<proto::ProcessTrace> traces(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) {
    if (!traces[p].ParseFromString(parts[p])) {
      return absl::DataLossError(absl::StrCat("process ", p, " has sent a part that is none"));
    }
  }
  return traces;
}

// The first step of program train in the parts whose successor is there, too: the successor; else
// the first.
std::optional<int64_t> StepToBegin(std::span<const proto::ProcessTrace> parts) {
  std::optional<int64_t> first;
  for (const proto::ProcessTrace& part : parts) {
    for (const proto::ProcessTrace::Firings& firings : part.firings()) {
      if (firings.program() != "train" || firings.step_size() == 0) continue;
      first = std::min(first.value_or(firings.step(0)), firings.step(0));
    }
  }
  if (first && StepBegin(parts, "train", *first + 1)) return *first + 1;
  return first;
}

// The predicted steps, in the time of the measured ones; none where no step was measured.
std::optional<proto::ProcessTrace> Predicted(const proto::Plan& plan, const SimulatedRun& run,
                                             std::span<const proto::ProcessTrace> parts) {
  const std::optional<int64_t> step = StepToBegin(parts);
  if (!step) return std::nullopt;
  proto::ProcessTrace predicted = SimulatedTrace(plan, run, *step);
  predicted.set_predicted(false);  // StepBegin passes over what is predicted
  const std::optional<int64_t> measured = StepBegin(parts, "train", *step);
  const std::optional<int64_t> begin = StepBegin({&predicted, 1}, "train", *step);
  predicted.set_predicted(true);
  if (!measured || !begin) return std::nullopt;
  predicted.set_clock_offset(*measured - *begin);
  return predicted;
}

absl::Status Write(const std::string& path, std::vector<proto::ProcessTrace> parts, int processes,
                   const proto::Plan& plan, const SimulatedRun* run) {
  if (run != nullptr) {
    std::optional<proto::ProcessTrace> predicted = Predicted(plan, *run, parts);
    if (predicted) parts.push_back(*std::move(predicted));
  }
  return Annotate(WriteFile(path, TraceFileBytes(path, parts, processes, MakeTraceFacts(plan))),
                  "--trace");
}

}  // namespace

absl::Status CheckTrace(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there)) {
    if (access(path.c_str(), W_OK) == 0 || errno == ENOENT) return absl::OkStatus();
    return Annotate(WriteError(path, "cannot be written", errno), "--trace");
  }
  // WriteFile, too, writes beside a file; a folder it refuses.
  const std::string beside = path + ".try";
  const absl::Status tried = fs::is_directory(there)     ? WriteFile(path, "")
                             : fs::exists(beside, error) ? absl::OkStatus()
                                                         : MakeWayForFile(beside);
  if (tried.ok()) return tried;
  return absl::Status(
      tried.code(),
      absl::StrCat("--trace: ", absl::StrReplaceAll(tried.message(), {{beside, path}})));
}

absl::Status WriteTrace(const std::string& path, const Runtime& runtime, ProcessGroup& group,
                        bool together, const SimulatedRun* predicted, const Notice& notice) {
  const int count = group.count();
  if (count == 1) return Write(path, {runtime.TraceEvents()}, 1, runtime.plan(), predicted);
  if (!together) {
    if (!group.IsFirst()) return absl::OkStatus();
    Notify(notice, "the trace has process 0 alone: others could not be asked");
    return Write(path, {MakeProcessTrace(runtime, group)}, count, runtime.plan(), predicted);
  }
  const auto join = [&](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const std::vector<proto::ProcessTrace> traces, Parse(parts));
    int64_t error = 0;
    for (const proto::ProcessTrace& trace : traces) error = std::max(error, trace.clock_error());
    RETURN_IF_ERROR(Write(path, traces, count, runtime.plan(), predicted));
    Notify(notice,
           absl::StrFormat("the trace's clocks agree with process 0's to within %.1f microseconds",
                           static_cast<double>(error) * 1e-3));
    return std::string();
  };
  return group.Round("trace", MakeProcessTrace(runtime, group).SerializeAsString(), join).status();
}

}  // namespace oneflow
