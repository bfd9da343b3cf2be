#include "training/trainer/promise.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/table.h"
#include "planning/simulate/run_figures.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/utilization.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

std::string Bytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string Off(double promised, double took) {
  return promised <= 0 ? "" : absl::StrFormat("%+.1f %%", 100 * (took / promised - 1));
}

// The mean over the stages.
DeviceTime Mean(const std::vector<DeviceTime>& devices) {
  DeviceTime mean;
  const auto n = static_cast<double>(devices.size());
  for (const DeviceTime& device : devices) {
    mean.compute += device.compute / n;
    mean.exposed += device.exposed / n;
    mean.hidden += device.hidden / n;
    mean.idle += device.idle / n;
    mean.exposed_copy += device.exposed_copy / n;
    mean.hidden_copy += device.hidden_copy / n;
  }
  return mean;
}

void AddTimes(const DeviceTime& time, double bubble, Json* json) {
  (*json)["compute_seconds"] = time.compute;
  (*json)["exposed_exchange_seconds"] = time.exposed;
  (*json)["hidden_exchange_seconds"] = time.hidden;
  (*json)["exposed_copy_seconds"] = time.exposed_copy;
  (*json)["hidden_copy_seconds"] = time.hidden_copy;
  (*json)["idle_seconds"] = time.idle;
  (*json)["bubble"] = bubble;
}

}  // namespace

absl::StatusOr<Promise> MakePromise(const proto::Plan& plan, const proto::Cluster& cluster,
                                    std::string basis, bool traced) {
  Promise promise{std::move(basis)};
  ASSIGN_OR_RETURN(promise.run, SimulateProved(cluster, plan, "train", /*steps=*/2,
                                               traced ? SimulateOptions::kNeverSkip : kSkipAfter));
  const Utilization use = FindUtilization(promise.run);
  promise.step_seconds = promise.run.StepSeconds();
  promise.cluster = cluster;
  promise.stages = use.devices;
  promise.mean = Mean(use.devices);
  promise.bubble = use.bubble;
  promise.device_tokens = FindFigures(plan, "train").device_tokens;
  std::map<int, int64_t> bytes;  // by stage; a device may have several arenas
  for (const proto::StageMemory& stage : plan.memory()) {
    if (stage.kind() == proto::DEVICE) bytes[stage.stage()] += stage.arena_bytes();
  }
  for (const auto& [stage, of_stage] : bytes) {
    promise.device_bytes = std::max(promise.device_bytes, of_stage);
  }
  return promise;
}

bool WasBusy(const Took& took) {
  // A device's own spinning and the host's work may hide a part of a wait, never make one.
  constexpr double kQuiet = 0.9;
  if (!took.use || took.use->step_seconds <= 0 || took.threads_running <= 0) return false;
  const double computing = took.devices * took.use->mean.compute / took.use->step_seconds;
  return took.threads_running < kQuiet * computing;
}

namespace {

// The median of all but the first, if there are others.
double MedianOfOthers(const std::vector<double>& values) {
  std::vector<double> others(values.begin() + (values.size() > 1 ? 1 : 0), values.end());
  const auto middle = others.begin() + std::ssize(others) / 2;
  std::nth_element(others.begin(), middle, others.end());
  return *middle;
}

}  // namespace

void StepTimes::Sum(Took* took) const {
  if (seconds_.empty()) return;
  took->step_seconds = MedianOfOthers(seconds_);
  took->threads_running = MedianOfOthers(threads_);
  took->steps = std::max<int64_t>(1, std::ssize(seconds_) - 1);
}

double ProcessSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string PromiseText(const Promise& promise) {
  return absl::StrCat("expects: ", TimeText(promise.step_seconds), " a step",
                      promise.band ? BandText(*promise.band) : "", ", bubble ",
                      PercentText(promise.bubble), ", ", Bytes(promise.device_bytes),
                      " on the largest device; ", promise.basis, "\n");
}

std::string TookText(const Promise& promise, const Took& took) {
  if (took.steps == 0) return "";
  std::vector<std::vector<std::string>> rows = {{"a step", "promised", "took"}};
  const auto add = [&](const char* what, double promised, double took_seconds, bool off) {
    rows.push_back(
        {what, TimeText(promised), TimeText(took_seconds), off ? Off(promised, took_seconds) : ""});
  };
  add("time, the median", promise.step_seconds, took.step_seconds, true);
  if (took.use) {
    const MeasuredUse& use = *took.use;
    const DeviceTime &a = promise.mean, &b = use.mean;
    add("time, the mean", promise.step_seconds, use.step_seconds, true);
    add("  compute", a.compute, b.compute, true);
    add("  exposed exchange", a.exposed, b.exposed, false);
    const bool copies = MovesToHost(promise.run);
    if (copies) add("  exposed copy", a.exposed_copy, b.exposed_copy, false);
    // Copies of the host's data alone take next to nothing.
    add("  idle", a.idle + (copies ? 0 : a.exposed_copy), b.idle + (copies ? 0 : b.exposed_copy),
        false);
    rows.push_back({"bubble", PercentText(promise.bubble), PercentText(use.bubble)});
  }
  if (promise.device_tokens > 0) {
    const auto rate = [&](double seconds) {
      return seconds > 0 ? DigitsText(std::llround(promise.device_tokens / seconds)) : "-";
    };
    rows.push_back({"tokens/s a device", rate(promise.step_seconds), rate(took.step_seconds)});
  }
  rows.push_back({"memory of a device", Bytes(promise.device_bytes), Bytes(took.device_bytes)});
  std::string text =
      TableText(rows, {{.least = 20}, {.right = true, .least = 12}, {true, 12}, {}}, 2);
  if (!took.use) return text;
  absl::StrAppend(&text, "  the median: of ", took.steps, took.steps == 1 ? " step" : " steps",
                  "; the mean, which its parts add up to: of ", took.use->steps, " from step ",
                  took.use->first_step, " on, over the devices\n");
  if (WasBusy(took)) {
    absl::StrAppendFormat(
        &text,
        "  the machine was busy: kernels took %s of a step, for %.0f %% of which they had a core; "
        "compare again on a quiet one\n",
        TimeText(took.use->mean.compute),
        100 * took.threads_running * took.use->step_seconds /
            (took.devices * took.use->mean.compute));
  }
  return text;
}

nlohmann::ordered_json TookJson(const Promise& promise, const Took& took) {
  Json promised = {
      {"basis", promise.basis}, {"step_seconds", promise.step_seconds}, {"compared", nullptr}};
  if (promise.band) promised["compared"] = BandJson(*promise.band, promise.step_seconds);
  AddTimes(promise.mean, promise.bubble, &promised);
  const auto add_tokens = [&](double seconds, Json* json) {
    if (promise.device_tokens <= 0 || seconds <= 0) return;
    (*json)["tokens_per_second_per_device"] = promise.device_tokens / seconds;
  };
  add_tokens(promise.step_seconds, &promised);
  promised["device_bytes"] = promise.device_bytes;
  Json took_json = Json::object();
  if (took.steps > 0) took_json["step_seconds"] = took.step_seconds;
  add_tokens(took.steps > 0 ? took.step_seconds : 0, &took_json);
  if (took.use) {
    took_json["mean_step_seconds"] = took.use->step_seconds;  // to which the parts add up
    AddTimes(took.use->mean, took.use->bubble, &took_json);
    took_json["threads_running"] = took.threads_running;
    took_json["machine_was_busy"] = WasBusy(took);
  }
  took_json["device_bytes"] = took.device_bytes;
  return {{"promised", std::move(promised)}, {"took", std::move(took_json)}};
}

int64_t MostFiringsOfStream(const proto::Plan& plan) {
  const proto::Program* program = FindProgram(plan, "train");
  int64_t most = 0;
  for (int s = 0; program != nullptr && s < program->stream_size(); ++s) {
    int64_t firings = 0;
    for (const proto::OrderRun& run : program->stream(s).order()) {
      for (const int segment : run.segment()) {
        firings += int64_t{run.repeat()} * program->segment(segment).actor_size();
      }
    }
    most = std::max(most, firings);
  }
  return most;
}

}  // namespace oneflow
