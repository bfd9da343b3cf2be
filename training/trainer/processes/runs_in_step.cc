#include "training/trainer/processes/runs_in_step.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

namespace {

// However an execution ends, the taker of its reports may go then; reports of other processes may
// be late.
struct LeaveReports {
  ReportQueue* const reports;
  ~LeaveReports() {
    if (reports != nullptr) reports->Leave();
  }
};

}  // namespace

RunsInStep::RunsInStep(bool is_first, Calls calls, const WaitUntil& wait)
    : is_first_(is_first), calls_(std::move(calls)), stop_(wait), reports_(wait) {}

void RunsInStep::Attach(Runtime* runtime) {
  // The workers of an execution that has failed leave at once; pieces may still be on their way.
  if (runtime == nullptr && !failed_.ok()) calls_.let_go(failed_);
  const std::lock_guard lock(mutex_);
  runtime_ = runtime;
  if (runtime != nullptr && !ended_.ok()) runtime->End(ended_);
}

absl::Status RunsInStep::Ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

absl::Status RunsInStep::Run(std::string_view program, RunContext context, int64_t steps,
                             int64_t reports) {
  StepGate* const gate = stop_.StartRun();
  const uint64_t run = stop_.number();
  calls_.begins(run, program, context.first_step, steps);
  // An execution that has not begun cannot be ended.
  RETURN_IF_ERROR(Ended());
  if (context.report && calls_.report) {
    if (is_first_) {
      reports_.Take(run, std::move(context.report));
      context.report = [this, run](int64_t step, std::span<const double> values) {
        reports_.Deliver(run, step, values);
      };
    } else {
      context.report = [this, run](int64_t step, std::span<const double> values) {
        calls_.report(run, step, values);
      };
    }
  }
  const LeaveReports leave{is_first_ ? &reports_ : nullptr};
  const absl::Status status = runtime_->Run(
      program, context, steps, {.gate = reports > 0 ? gate : nullptr, .on_failure = calls_.fails});
  // The last step that began may not be done.
  if (program == "train") {
    const int64_t begun = stop_.begun();
    steps_done_ =
        context.first_step + reports * (status.ok() ? begun : std::max<int64_t>(0, begun - 1));
  }
  if (!status.ok()) {
    failed_ = status;
    calls_.fails(status);
    const absl::Status end = calls_.await_end();
    return end.ok() ? status : end;
  }
  stopped_ = stop_.StopHere();
  RETURN_IF_ERROR(Ended());
  if (is_first_ && calls_.report) RETURN_IF_ERROR(reports_.Await(runtime_->steps_done() * reports));
  return absl::OkStatus();
}

void RunsInStep::StopAt(const StepPosition& end) {
  stop_.EndAt(end, [this] {
    const std::lock_guard lock(mutex_);
    if (runtime_ != nullptr) runtime_->Wake();
  });
}

void RunsInStep::Deliver(uint64_t run, int64_t step, std::span<const double> values) {
  reports_.Deliver(run, step, values);
}

void RunsInStep::End(const absl::Status& why) {
  stop_.Abandon();
  {
    const std::lock_guard lock(mutex_);
    ended_ = why;
    if (runtime_ != nullptr) runtime_->End(why);
  }
  reports_.End(why);
}

}  // namespace oneflow
