#include "tools/oneflow/serve/live_run.h"

#include <catch2/catch.hpp>
#include <limits>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

// Two stages of two devices each; the second has memory of its host.
proto::Plan APlan() {
  proto::Plan plan;
  const auto add_axis = [&](const char* name) {
    auto* axis = plan.mutable_mesh()->add_axis();
    axis->set_name(name);
    axis->set_size(2);
  };
  add_axis("data");
  add_axis("pipe");
  plan.set_stage_axis(1);
  const auto add_memory = [&](int stage, proto::MemoryKind kind, int64_t bytes) {
    proto::StageMemory* memory = plan.add_memory();
    memory->set_stage(stage);
    memory->set_kind(kind);
    memory->set_arena_bytes(bytes);
  };
  add_memory(0, proto::DEVICE, 100);
  add_memory(1, proto::DEVICE, 200);
  add_memory(1, proto::HOST, 50);
  return plan;
}

void AddWait(int rank, const char* group, double milliseconds, proto::ProcessWaits* waits) {
  proto::ProcessWaits::Wait* wait = waits->add_wait();
  wait->set_rank(rank);
  wait->set_group(group);
  wait->set_milliseconds(milliseconds);
}

nlohmann::json Now(const LiveRun& live) { return nlohmann::json::parse(live.JsonNow()); }

TEST_CASE("a run that has done no step has little to show") {
  const JobReport report("", 0);
  const LiveRun live(APlan(), std::nullopt, report, "the page");
  const nlohmann::json json = Now(live);
  CHECK(json["step"] == 0);
  CHECK(json["last_step"].is_null());
  CHECK(json["losses"]["step"].empty());
  CHECK(json["promised"].is_null());
  CHECK(json["took"]["step_seconds"].is_null());
  CHECK(*live.Answer("/").text == "the page");
  CHECK(*live.Answer("/healthz").text == "ok\n");
  CHECK(live.Answer("/live.json").type == "application/json");
  CHECK(live.Answer("/metrics/").text == nullptr);
  CHECK(live.Answer("").text == nullptr);
  CHECK_FALSE(absl::StrContains(live.MetricsNow(), "oneflow_train_step"));
  CHECK(absl::StrContains(live.MetricsNow(),
                          "oneflow_planned_bytes{device=\"0\",stage=\"0\",memory=\"device\"} 100\n"
                          "oneflow_planned_bytes{device=\"1\",stage=\"1\",memory=\"device\"} 200\n"
                          "oneflow_planned_bytes{device=\"1\",stage=\"1\",memory=\"host\"} 50\n"));
}

TEST_CASE("losses that are no numbers, or none, are shown as such") {
  const JobReport report("", 0);
  LiveRun live(APlan(), std::nullopt, report, "");
  live.Add({.step = 0, .last_step = 9, .loss = 2.5, .seconds = 8});
  live.Add({.step = 1, .last_step = 9, .loss = std::nullopt, .seconds = 3});
  live.Add({.step = 2,
            .last_step = 9,
            .loss = std::numeric_limits<double>::quiet_NaN(),
            .norm = std::numeric_limits<double>::infinity(),
            .seconds = 1,
            .evaluated = MeanLoss()});
  const nlohmann::json json = Now(live);
  CHECK(json["step"] == 3);
  CHECK(json["loss"].is_null());
  CHECK(json["mfu"].is_null());
  CHECK(json["losses"]["step"] == nlohmann::json({0, 2}));
  CHECK(json["losses"]["last"] == nlohmann::json({2.5, nullptr}));
  CHECK(json["eval_losses"]["step"].empty());
  CHECK(json["took"]["step_seconds"] == 3);  // of the second step and the third
  const std::string metrics = live.MetricsNow();
  CHECK(absl::StrContains(metrics, "\noneflow_train_loss NaN\n"));
  CHECK(absl::StrContains(metrics, "\noneflow_train_grad_norm +Inf\n"));
  CHECK_FALSE(absl::StrContains(metrics, "oneflow_train_mfu"));
  CHECK_FALSE(absl::StrContains(metrics, "oneflow_train_eval_loss"));
}

TEST_CASE("a long run is shown in few points") {
  const JobReport report("", 0);
  LiveRun live(APlan(), std::nullopt, report, "");
  for (int64_t step = 0; step < 1500; ++step) {
    live.Add({.step = step, .last_step = 9000, .loss = step % 2, .seconds = 1});
  }
  const nlohmann::json losses = Now(live)["losses"];
  CHECK(losses["every"] == 2);
  CHECK(losses["step"].size() == 750);
  CHECK(losses["step"][1] == 3);
  CHECK(losses["last"][1] == 1);
  CHECK(losses["low"][1] == 0);
  CHECK(losses["high"][1] == 1);
}

TEST_CASE("stages wait as long as their devices do on average") {
  JobReport report("", 0);
  const LiveRun live(APlan(), std::nullopt, report, "");
  proto::ProcessWaits waits;
  AddWait(0, "compute, ranks 0 and 2", 10, &waits);
  AddWait(0, "send.forward.1, ranks 0 and 1", 4, &waits);
  AddWait(2, "compute, ranks 0 and 2", 20, &waits);
  AddWait(3, "compute, ranks 1 and 3", 7, &waits);
  AddWait(9, "compute, ranks 1 and 9", 7, &waits);  // of no plan like this
  report.Waits(waits);
  const nlohmann::json stages = Now(live)["stages"];
  CHECK(stages[0]["waits"] == nlohmann::json({{"compute", 0.015}, {"send.forward.1", 0.002}}));
  CHECK(stages[1]["waits"] == nlohmann::json({{"compute", 0.007}}));
  CHECK(absl::StrContains(live.MetricsNow(),
                          "oneflow_train_wait_seconds{stage=\"0\",stream=\"compute\"} 0.015\n"));
  CHECK(Now(live)["standstill"].is_null());
  report.Standstill("rank 5 \"is\" far");
  CHECK(Now(live)["standstill"] == "rank 5 \"is\" far");
  CHECK(absl::StrContains(live.MetricsNow(), "\noneflow_train_stands_still 1\n"));
}

TEST_CASE("a plan that cannot be simulated has a page of the run alone") {
  const std::string page = LivePage(APlan(), std::nullopt);
  CHECK(absl::StrContains(page, "<section id=\"live\" hidden></section>"));
  CHECK(absl::StrContains(page, "fetch(\"live.json\""));
}

}  // namespace
}  // namespace oneflow
