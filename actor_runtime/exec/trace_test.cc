#include "actor_runtime/exec/trace.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <string>

#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

nlohmann::json MakeTrace(const proto::Plan& plan, int64_t steps, int64_t events) {
  RuntimeOptions options;
  options.make_kernel = MakeTestKernel;
  options.trace = true;
  options.trace_events_per_stream = events;
  auto runtime = Runtime::Create(plan, options).value();
  REQUIRE(runtime->Run("train", {}, steps).ok());
  return nlohmann::json::parse(runtime->TraceJson());
}

std::map<std::string, int> CountByPhase(const nlohmann::json& trace) {
  std::map<std::string, int> counts;
  for (const nlohmann::json& event : trace["traceEvents"]) ++counts[event["ph"].get<std::string>()];
  return counts;
}

TEST_CASE(
    "a slice for each firing, a track for each stream, an arrow for each fill between streams") {
  const nlohmann::json trace = MakeTrace(TwoStagesPlan(), 2, 1000);
  std::map<std::string, int> counts = CountByPhase(trace);
  CHECK(counts["X"] == 2 * 33);
  CHECK(counts["M"] == 2 * 2 + 2 * 6);  // name and order of each process and stream
  // x -> x.send, x.recv -> dx, dw1; dx -> dx.send, dx.recv -> w0: five edges between streams, 4
  // fills a step.
  CHECK(counts["s"] == 2 * 4 * 5);
  CHECK(counts["f"] == counts["s"]);
  CHECK(trace["otherData"]["dropped_events"] == "0");
  std::map<int64_t, int> steps;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    CHECK(event["dur"].get<double>() >= 0);
    CHECK(event["ts"].get<double>() >= 0);
    CHECK((event["args"]["step"] == 0 || event["args"]["step"] == 1));
    ++steps[event["args"]["step"].get<int64_t>()];
  }
  CHECK(steps == std::map<int64_t, int>{{0, 33}, {1, 33}});
}

TEST_CASE("a process is a device of a stage, a slice has its part of the step and its bytes") {
  const nlohmann::json trace = MakeTrace(TwoStagesPlan(), 2, 1000);
  std::map<int, std::string> processes;
  std::map<std::string, nlohmann::json> slices;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["ph"] == "X") slices[event["name"]] = event;
  }
  CHECK(processes == std::map<int, std::string>{{0, "stage 0, rank 0"}, {1, "stage 1, rank 1"}});
  CHECK(slices["x.send"]["cat"] == "exchange");
  CHECK(slices["x.recv"]["args"]["program"] == "train");
  CHECK(slices["x.recv"]["args"]["waited_us"].get<double>() >= 0);
  CHECK(slices["x.recv"]["args"]["written_bytes"].get<int64_t>() > 0);
  // The last firing of a step of several is of its last micro-batch.
  for (const auto& [name, slice] : slices) {
    const int64_t a_step = slice["args"]["firing"].get<int64_t>() / 2 + 1;
    CHECK(slice["args"]["micro_batch"] == a_step - 1);
  }
}

TEST_CASE(
    "each device has a mark where it begins a step, and a counter of bytes that returns to 0") {
  const nlohmann::json trace = MakeTrace(TwoStagesPlan(), 3, 1000);
  std::map<std::string, int> marks;
  std::map<int, int64_t> most, last;
  std::map<int, double> at;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "i") ++marks[event["name"]];
    if (event["ph"] != "C") continue;
    const int process = event["pid"];
    const int64_t bytes = event["args"]["bytes"];
    CHECK(bytes >= 0);
    CHECK(event["ts"].get<double>() >= at[process]);
    at[process] = event["ts"];
    most[process] = std::max(most[process], bytes);
    last[process] = bytes;
  }
  CHECK(marks == std::map<std::string, int>{{"step 0", 2}, {"step 1", 2}, {"step 2", 2}});
  REQUIRE(most.size() == 2);
  for (const auto& [process, bytes] : most) {
    CHECK(bytes > 0);
    CHECK(last[process] < bytes);
  }
}

TEST_CASE("an arrow points forward in time, from the writer's rank to the reader's") {
  const nlohmann::json trace = MakeTrace(TwoStagesPlan(), 3, 1000);
  std::map<int64_t, nlohmann::json> starts;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") starts[event["id"].get<int64_t>()] = event;
  }
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "f") continue;
    CHECK(starts.at(event["id"].get<int64_t>())["ts"].get<double>() <= event["ts"].get<double>());
  }
}

TEST_CASE("a full buffer keeps the first events and says how many it dropped") {
  const nlohmann::json trace = MakeTrace(ChainPlan(), 10, 5);
  CHECK(CountByPhase(trace)["X"] == 2 * 5);
  CHECK(trace["otherData"]["dropped_events"] == std::to_string(10 * 9 - 10));
  CHECK(trace["traceEvents"][0]["name"] == "truncated: 80 firings did not fit");
}

TEST_CASE("a trace of many runs takes no more than one of one") {
  const absl::StatusOr<std::unique_ptr<Runtime>> runtime = [] {
    RuntimeOptions options;
    options.make_kernel = MakeTestKernel;
    options.trace = true;
    options.trace_events_per_stream = 5;
    return Runtime::Create(ChainPlan(), options);
  }();
  REQUIRE(runtime.ok());
  for (int run = 0; run < 10; ++run) REQUIRE((*runtime)->Run("train", {}, 1).ok());
  CHECK(CountByPhase(nlohmann::json::parse((*runtime)->TraceJson()))["X"] == 2 * 5);
}

}  // namespace
}  // namespace oneflow
