// LiveRun: what `train --serve` answers while a training runs: its page, which polls the newest
// figures as JSON, and the same figures for Prometheus.
//
//   LiveRun live(plan, promise, report, LivePage(plan, promise));
//   observer.on_step = [&](const TrainedStep& step) { live.Add(step); };
//   server->Start([&](const std::string& path) { return live.Answer(path); });
//
// It opens no file and stops nothing. Readers copy the figures under its mutex, and write texts
// from the copies, so that they hold the thread of the log up for microseconds; no worker waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actor_runtime/exec/stage_mesh.h"
#include "nlohmann/json.hpp"
#include "planning/simulate/utilization.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/explain/plan_origin.h"
#include "tools/oneflow/serve/curve.h"
#include "tools/oneflow/serve/http/http_server.h"
#include "training/trainer/job_report.h"
#include "training/trainer/metrics_log.h"
#include "training/trainer/promise.h"

namespace oneflow {

// The page of a plan (explain_page.h), simulated on the cluster of the promise, with a script that
// shows a run in it. Without a promise, or where it cannot be simulated, the run alone.
std::string LivePage(const proto::Plan& plan, const std::optional<Promise>& promise,
                     PlanOrigin origin = {});

class LiveRun {
 public:
  // Requires a plan that passed VerifyPlan. `report` outlives it.
  LiveRun(const proto::Plan& plan, const std::optional<Promise>& promise, const JobReport& report,
          std::string page);

  // One thread.
  void Add(const TrainedStep& step);

  // Any thread. Of "/", "/live.json", "/metrics" and "/healthz".
  HttpReply Answer(const std::string& path) const;
  // {"step": steps that are done, "last_step", "loss", ..., "losses", "eval_losses", "step_times":
  // {"every", "step": [...], "last": [...], "low", "high"}, "promised" and "took" (promise.h),
  // "stages": [{"devices", "bytes", "promised", "waits"}], "standstill"}. Numbers are the ones of
  // the file of metrics; null: not known, or not finite.
  std::string JsonNow() const;
  // The text format of Prometheus, version 0.0.4. What is not known is left out.
  std::string MetricsNow() const;

 private:
  struct Stage {
    int devices = 0;
    int64_t bytes = 0, host_bytes = 0;    // planned, of a device
    std::optional<DeviceTime> promised;   // of a step
    std::map<std::string, double> waits;  // seconds of a step, by stream: the mean of its devices
  };
  struct Figures {
    std::optional<TrainedStep> newest;  // without counts
    std::optional<double> eval_loss;    // of the last validation
    Curve losses, eval_losses, step_times;
    std::array<double, 101> recent = {};  // seconds of the last steps, but for the first step
    int64_t steps = 0;                    // that were added
  };
  Figures Copy() const;
  std::vector<Stage> StagesNow() const;
  static std::optional<double> MedianSeconds(const Figures& figures);

  const JobReport& report_;
  const std::shared_ptr<const std::string> page_;
  const StageMesh mesh_;
  nlohmann::ordered_json promised_;  // null: nothing is
  double device_tokens_ = 0;         // of a step
  std::vector<Stage> stages_;        // without waits

  mutable std::mutex mutex_;
  Figures figures_;  // under mutex_
};

}  // namespace oneflow
