// The trace of a run on devices: slices are the times of the device's events, so they are in the
// order in which things ran there.
#include <map>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr double kRounding = 0.0015;  // of two times that are printed, in microseconds

using TrackKey = std::pair<int, int>;  // rank, stream

// The trace of a run of init and train on one GPU that all ranks share.
nlohmann::json Traced(SmallRun run) {
  const DeviceBackend backend = HostBackend(1);
  run.Set("--device=cuda");
  run.backend = &backend;
  run.trace = true;
  std::string json;
  run.after = [&](const Runtime& runtime, const std::string&) { json = runtime.TraceJson(); };
  Train(run);
  return nlohmann::json::parse(json);
}

std::map<TrackKey, std::string> NamesOfTracks(const nlohmann::json& trace) {
  std::map<TrackKey, std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") names[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  return names;
}

TEST_CASE("slices of a device's streams are what its events say") {
  for (const char* mesh : {"", "pipe=2"}) {
    for (const auto model : emulated::kModels) {
      INFO(mesh);
      emulated::Reset({.devices = 1, .model = model, .seed = 5});
      SmallRun run;
      run.Set("mesh", mesh);
      run.steps = 2;
      const nlohmann::json trace = Traced(run);
      std::map<TrackKey, std::string> names = NamesOfTracks(trace);
      std::map<TrackKey, double> ends;
      std::map<int64_t, double> fills;
      int slices = 0, arrows = 0;
      for (const auto& event : trace["traceEvents"]) {
        if (event["ph"] == "C") continue;  // of a device, not of a stream
        const TrackKey track{event["pid"], event["tid"]};
        if (names[track].find("host") != std::string::npos) continue;
        const std::string phase = event["ph"];
        if (phase == "X") {
          ++slices;
          // One after the other, in the order of the stream; a separate item takes a microsecond.
          CHECK(event["ts"].get<double>() >= ends[track] - kRounding);
          CHECK(event["dur"].get<double>() > 0.5);
          ends[track] = event["ts"].get<double>() + event["dur"].get<double>();
        } else if (phase == "s") {
          fills[event["id"]] = event["ts"];
        } else if (phase == "f" && fills.contains(event["id"])) {
          // A reader begins after the writer, though on another stream.
          ++arrows;
          CHECK(event["ts"].get<double>() >= fills[event["id"]] - kRounding);
        }
      }
      CHECK(slices > 100);
      CHECK(arrows > 10);
      CHECK(emulated::LiveObjects() == 0);
      CHECK(emulated::Diagnostics().empty());
    }
  }
}

TEST_CASE("a time that cannot be read ends the run") {
  emulated::Reset({.devices = 1});
  const DeviceBackend backend = HostBackend(1);
  SmallRun run;
  run.steps = 1;
  run.Set("--device=cuda");
  run.backend = &backend;
  run.trace = true;
  const proto::Plan plan = CompileSmall(run);
  for (const char* entry : {"cudaEventElapsedTime", "cudaEventSynchronize"}) {
    emulated::Fail(entry);
    CHECK_THROWS_WITH(Train(run, plan), Catch::Matchers::Contains(entry));
    CHECK(emulated::LiveObjects() == 0);
  }
}

TEST_CASE("without a trace no event tells times") {
  emulated::Reset({.devices = 1});
  const DeviceBackend backend = HostBackend(1);
  SmallRun run;
  run.steps = 1;
  run.Set("--device=cuda");
  run.backend = &backend;
  Train(run);
  CHECK_FALSE(emulated::CallCounts().contains("cudaEventElapsedTime"));
  CHECK_FALSE(emulated::CallCounts().contains("cudaEventSynchronize"));
}

}  // namespace
}  // namespace oneflow
