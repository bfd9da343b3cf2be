// Every call of CUDA may fail: then the run, or what comes before it, ends with a Status that says
// where, nothing is left behind, and the next run is good.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

constexpr int kDrawn = 10;  // calls of each entry, but in the full tier

// The error of a run; "": none.
std::string RunFailure(const SmallRun& run, const proto::Plan& plan) {
  try {
    Train(run, plan);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// True for calls that release something.
bool GivesBack(const std::string& entry) {
  return entry == "cudaFree" || entry == "cudaFreeHost" || entry.ends_with("Destroy");
}

bool Full() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

// The calls of `entry` that are made to fail, of `calls`.
std::vector<int> Chosen(int calls, std::mt19937_64* random) {
  std::vector<int> chosen(calls);
  for (int i = 0; i < calls; ++i) chosen[i] = i + 1;
  if (Full() || calls <= kDrawn) return chosen;
  std::shuffle(chosen.begin(), chosen.end(), *random);
  chosen.resize(kDrawn);
  return chosen;
}

TEST_CASE("where there is too little pinned memory the refusal says what to do") {
  const DeviceBackend backend = HostBackend(1);
  SmallRun run;
  run.steps = 1;
  run.model.set_layers(1);
  run.Set("--device=cuda");
  run.backend = &backend;
  emulated::Reset({.devices = 1});
  const proto::Plan plan = CompileSmall(run);
  emulated::Reset({.devices = 1});
  emulated::Fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  const std::string why = RunFailure(run, plan);
  INFO(why);
  CHECK(why.find("pinned memory of GPU 0, ") != std::string::npos);
  CHECK(why.find("free memory of the host") != std::string::npos);
  CHECK(why.find("`oneflow explain` prints the pinned memory") != std::string::npos);
}

TEST_CASE("any call may fail") {
  const DeviceBackend backend = HostBackend(1);
  std::mt19937_64 random(1);
  for (const char* mesh : {"", "pipe=2"}) {
    SmallRun run;
    run.Set("mesh", mesh);
    run.steps = 2;
    run.model.set_layers(2);
    run.Set("--device=cuda");
    run.backend = &backend;
    run.interleaving = 1;
    emulated::Reset({.devices = 1});
    const proto::Plan plan = CompileSmall(run);
    const SmallResult good = Train(run, plan);
    const std::map<std::string, int> calls = emulated::CallCounts();
    REQUIRE(calls.size() >= 10);
    for (const auto& [entry, count] : calls) {
      if (GivesBack(entry)) continue;
      const std::vector<int> chosen = Chosen(count, &random);
      for (const int call : chosen) {
        INFO(mesh << ": call " << call << " of " << count << " of " << entry);
        emulated::Reset({.devices = 1, .model = emulated::kModels[call % 3]});
        emulated::Fail(entry, call);
        const std::string failure = RunFailure(run, plan);
        const bool asks = entry == "cudaGetLastError" || entry == "cudaPeekAtLastError";
        CHECK(failure.empty() == asks);
        const bool in_run = failure.find("program ") != std::string::npos;
        if (in_run) CHECK(failure.find("actor ") != std::string::npos);
        CHECK(emulated::LiveObjects() == 0);
        if (!Full() && call != chosen.back()) continue;
        emulated::Reset({.devices = 1});
        REQUIRE(Train(run, plan) == good);
      }
    }
  }
}

}  // namespace
}  // namespace oneflow
