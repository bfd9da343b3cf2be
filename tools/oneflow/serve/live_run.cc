#include "tools/oneflow/serve/live_run.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/strings.h"
#include "tools/oneflow/explain/simulated_page.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLiveScript =
#include "tools/oneflow/serve/live_js.inc"
    ;

Json NumberJson(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

// Points of single steps have neither "low" nor "high".
Json CurveJson(const Curve& curve) {
  Json steps = Json::array(), last = Json::array(), low = Json::array(), high = Json::array();
  for (const Curve::Point& point : curve.points()) {
    steps.push_back(point.step);
    last.push_back(NumberJson(point.last));
    if (curve.every() == 1) continue;
    low.push_back(NumberJson(point.low));
    high.push_back(NumberJson(point.high));
  }
  Json json = {{"every", curve.every()}, {"step", std::move(steps)}, {"last", std::move(last)}};
  if (curve.every() > 1) json["low"] = std::move(low), json["high"] = std::move(high);
  return json;
}

// "gradients, ranks 0 and 1": the stream.
std::string StreamInGroup(const std::string& group) {
  return group.substr(0, group.rfind(", rank"));
}

class PrometheusText {
 public:
  // Of samples to come.
  void Family(const std::string& name, const std::string& help) {
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " gauge\n");
    name_ = name;
  }
  void Add(double value, const std::vector<std::pair<std::string, std::string>>& labels = {}) {
    std::string list;
    for (const auto& [label, of] : labels) {
      absl::StrAppend(&list, list.empty() ? "" : ",", label, "=\"",
                      absl::StrReplaceAll(of, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                      "\"");
    }
    const std::string number = std::isnan(value)   ? "NaN"
                               : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                                   : ExactDouble(value);
    absl::StrAppend(&text_, name_, list.empty() ? "" : absl::StrCat("{", list, "}"), " ", number,
                    "\n");
  }
  void Single(const std::string& name, std::optional<double> value, const std::string& help) {
    if (!value) return;
    Family(name, help);
    Add(*value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_, name_;
};

}  // namespace

std::string LivePage(const proto::Plan& plan, const std::optional<Promise>& promise,
                     PlanOrigin origin) {
  if (promise) {
    absl::StatusOr<std::string> page = SimulatedPage(promise->cluster, {.plan = plan}, "train",
                                                     /*steps=*/2, kLiveScript, std::move(origin));
    if (page.ok()) return *std::move(page);
  }
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta "
      "name=\"color-scheme\" content=\"light dark\"/>\n<title>oneflow train</title>\n</head>\n"
      "<body>\n<section id=\"live\" hidden></section>\n<script>\n",
      ToAbsl(kLiveScript), "</script>\n</body>\n</html>\n");
}

LiveRun::LiveRun(const proto::Plan& plan, const std::optional<Promise>& promise,
                 const JobReport& report, std::string page)
    : report_(report),
      page_(std::make_shared<const std::string>(std::move(page))),
      mesh_(*MakeStageMesh(plan)) {
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const size_t stage = static_cast<size_t>(mesh_.RankToStage(rank));
    if (stage >= stages_.size()) stages_.resize(stage + 1);
    ++stages_[stage].devices;
  }
  for (const proto::StageMemory& memory : plan.memory()) {
    Stage& stage = stages_[static_cast<size_t>(memory.stage())];
    (memory.kind() == proto::HOST ? stage.host_bytes : stage.bytes) += memory.arena_bytes();
  }
  if (!promise) return;
  promised_ = TookJson(*promise, {})["promised"];
  device_tokens_ = promise->device_tokens;
  for (size_t s = 0; s < std::min(stages_.size(), promise->stages.size()); ++s) {
    stages_[s].promised = promise->stages[s];
  }
}

void LiveRun::Add(const TrainedStep& step) {
  const std::lock_guard lock(mutex_);
  figures_.newest = step;
  figures_.newest->counts = {};  // they are the log's
  if (step.loss) figures_.losses.Add(step.step, *step.loss);
  if (step.evaluated && step.evaluated->value()) {
    figures_.eval_loss = step.evaluated->value();
    figures_.eval_losses.Add(step.step, *figures_.eval_loss);
  }
  figures_.step_times.Add(step.step, step.seconds);
  // The first step warms up.
  if (figures_.steps > 0)
    figures_.recent[(figures_.steps - 1) % figures_.recent.size()] = step.seconds;
  ++figures_.steps;
}

HttpReply LiveRun::Answer(const std::string& path) const {
  const auto reply = [](const char* type, std::string text) {
    return HttpReply{type, std::make_shared<const std::string>(std::move(text))};
  };
  if (path == "/") return {"text/html; charset=utf-8", page_};
  if (path == "/live.json") return reply("application/json", JsonNow());
  if (path == "/metrics") return reply("text/plain; version=0.0.4; charset=utf-8", MetricsNow());
  if (path == "/healthz") return reply("text/plain; charset=utf-8", "ok\n");
  return {};
}

LiveRun::Figures LiveRun::Copy() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

std::optional<double> LiveRun::MedianSeconds(const Figures& figures) {
  const size_t n = std::min<size_t>(std::max<int64_t>(figures.steps - 1, 0), figures.recent.size());
  if (n == 0) return std::nullopt;
  std::vector<double> seconds(figures.recent.begin(), figures.recent.begin() + n);
  const auto middle = seconds.begin() + n / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::vector<LiveRun::Stage> LiveRun::StagesNow() const {
  std::vector<Stage> stages = stages_;
  std::vector<int> ranks(stages.size(), 0);
  for (const auto& [rank, groups] : report_.waits()) {
    if (rank < 0 || rank >= mesh_.ranks()) continue;
    const size_t stage = static_cast<size_t>(mesh_.RankToStage(rank));
    ++ranks[stage];
    for (const auto& [group, milliseconds] : groups) {
      stages[stage].waits[StreamInGroup(group)] += 1e-3 * milliseconds;
    }
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    for (auto& [stream, seconds] : stages[s].waits) seconds /= ranks[s];
  }
  return stages;
}

std::string LiveRun::JsonNow() const {
  const Figures figures = Copy();
  Json json = {{"step", 0}, {"last_step", nullptr}};
  if (const auto& step = figures.newest) {
    json = {{"step", step->step + 1},
            {"last_step", step->last_step},
            {"loss", NumberJson(step->loss)},
            {"eval_loss", NumberJson(figures.eval_loss)},
            {"learning_rate", NumberJson(step->learning_rate)},
            {"grad_norm", NumberJson(step->norm)},
            {"tokens_per_second", NumberJson(step->tokens_per_second)},
            {"step_seconds", NumberJson(step->seconds)},
            {"mfu", NumberJson(step->mfu)},
            {"left_seconds", NumberJson(step->left_seconds)}};
  }
  json["losses"] = CurveJson(figures.losses);
  json["eval_losses"] = CurveJson(figures.eval_losses);
  json["step_times"] = CurveJson(figures.step_times);
  json["promised"] = promised_;
  const std::optional<double> median = MedianSeconds(figures);
  json["took"] = {{"step_seconds", NumberJson(median)}};
  if (median && *median > 0 && device_tokens_ > 0) {
    json["took"]["tokens_per_second_per_device"] = device_tokens_ / *median;
  }
  json["stages"] = JsonList(StagesNow(), [](const Stage& stage) {
    Json made = {{"devices", stage.devices}, {"bytes", stage.bytes}};
    if (stage.host_bytes > 0) made["host_bytes"] = stage.host_bytes;
    if (const auto& time = stage.promised) {
      made["promised"] = {{"compute_seconds", time->compute},
                          {"exposed_seconds", time->exposed + time->exposed_copy},
                          {"idle_seconds", time->idle}};
    }
    made["waits"] = stage.waits;
    return made;
  });
  const std::string standstill = report_.standstill();
  json["standstill"] = standstill.empty() ? Json() : Json(standstill);
  return JsonText(json);
}

std::string LiveRun::MetricsNow() const {
  const Figures figures = Copy();
  const std::vector<Stage> stages = StagesNow();
  PrometheusText text;
  if (const auto& step = figures.newest) {
    text.Single("oneflow_train_step", step->step + 1, "Steps that are done.");
    text.Single("oneflow_train_last_step", step->last_step, "Steps of the run.");
    text.Single("oneflow_train_loss", step->loss, "Training loss of the newest step.");
    text.Single("oneflow_train_eval_loss", figures.eval_loss, "Loss of the last validation.");
    text.Single("oneflow_train_learning_rate", step->learning_rate,
                "Learning rate of the newest step.");
    text.Single("oneflow_train_grad_norm", step->norm,
                "Norm of the gradient of the newest step, before it is clipped.");
    text.Single("oneflow_train_tokens_per_second", step->tokens_per_second,
                "Tokens a second of all devices in the newest step.");
    text.Single("oneflow_train_step_seconds", step->seconds, "Seconds of the newest step.");
    text.Single("oneflow_train_median_step_seconds", MedianSeconds(figures),
                "Median of the seconds of the last 101 steps.");
    text.Single("oneflow_train_mfu", step->mfu,
                "Model FLOPs over what the machine can do, from 0 to 1, of the last steps.");
    text.Single("oneflow_train_left_seconds", step->left_seconds,
                "Seconds to the end of the run, with its pauses.");
  }
  if (promised_.is_object()) {
    text.Single("oneflow_train_promised_step_seconds", promised_["step_seconds"].get<double>(),
                "Seconds of a step as promised before the run.");
  }
  text.Single("oneflow_train_stands_still", report_.standstill().empty() ? 0 : 1,
              "1 while nothing goes on in the job, else 0.");
  text.Family("oneflow_planned_bytes", "Bytes that the plan takes in memory for a device.");
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const int stage = mesh_.RankToStage(rank);
    const auto add = [&](int64_t bytes, const char* memory) {
      text.Add(
          static_cast<double>(bytes),
          {{"device", absl::StrCat(rank)}, {"stage", absl::StrCat(stage)}, {"memory", memory}});
    };
    add(stages[static_cast<size_t>(stage)].bytes, "device");
    if (stages[static_cast<size_t>(stage)].host_bytes > 0) {
      add(stages[static_cast<size_t>(stage)].host_bytes, "host");
    }
  }
  text.Family("oneflow_train_wait_seconds",
              "Seconds of a step that a device of the stage waits for others, by the stream of the "
              "exchange: the mean of its devices.");
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const auto& [stream, seconds] : stages[s].waits) {
      text.Add(seconds, {{"stage", absl::StrCat(s)}, {"stream", stream}});
    }
  }
  return text.Take();
}

}  // namespace oneflow
