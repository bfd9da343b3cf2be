// Parallel equals serial: data, tensor and pipe in {1, 2} and their products, GPipe and 1F1B.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "catch2/catch.hpp"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallResult TrainOn(const std::string& mesh, const std::string& schedule = "1f1b", int threads = 1,
                    proto::DataType precision = proto::F32) {
  SmallRun run;
  run.mesh = mesh;
  run.precision = precision;
  run.schedule = schedule;
  run.threads = threads;
  return Train(run);
}

double LargestDifference(const SmallResult& a, const SmallResult& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    REQUIRE(std::isfinite(a.losses[i]));  // std::max would drop a NaN
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]));
  }
  return largest;
}

TEST_CASE("20 steps on any mesh give the losses of one device within 1e-5") {
  const SmallResult serial = TrainOn("");
  REQUIRE(serial.losses.back() < serial.losses.front() - 0.5);  // it learns
  for (const std::string mesh : {"data=2", "tensor=2", "data=2,tensor=2", "pipe=2,data=2",
                                 "pipe=2,tensor=2", "pipe=2,data=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(TrainOn(mesh), serial) < 1e-5);
  }
}

TEST_CASE("Pipe degree, schedule, threads and repetition do not change a bit") {
  for (const std::string rest : {"", "data=2", "tensor=2"}) {
    INFO(rest);
    const SmallResult one = TrainOn(rest);
    CHECK(TrainOn(rest) == one);
    CHECK(TrainOn(rest, "1f1b", 2) == one);
    for (const std::string pipe : {"pipe=2", "pipe=4"}) {
      const std::string mesh = pipe + (rest.empty() ? "" : "," + rest);
      INFO(mesh);
      CHECK(TrainOn(mesh, "1f1b") == one);
      CHECK(TrainOn(mesh, "gpipe") == one);
    }
  }
}

// Schedules that need another stage count, or more than a name.
std::vector<SmallRun> OtherSchedules(const std::string& rest) {
  std::vector<SmallRun> runs;
  const auto add = [&](const char* pipe, const char* schedule, int chunks, int64_t extra) {
    SmallRun& run = runs.emplace_back();
    run.mesh = pipe + (rest.empty() ? "" : "," + rest);
    run.schedule = schedule;
    run.chunks = chunks;
    run.extra_in_flight = extra;
  };
  add("pipe=2", "interleaved", 2, 0);
  add("pipe=1", "interleaved", 4, 0);
  add("pipe=2", "1f1b", 0, 1);
  add("pipe=2", "zero_bubble", 0, 0);
  add("pipe=4", "zero_bubble", 0, 3);
  return runs;
}

TEST_CASE("Chunks, gradients of weights apart and more in flight do not change a bit either") {
  for (const std::string rest : {"", "data=2", "tensor=2"}) {
    const SmallResult one = TrainOn(rest);
    for (const SmallRun& run : OtherSchedules(rest)) {
      INFO(run.mesh << " " << run.schedule << " " << run.chunks << " " << run.extra_in_flight);
      CHECK(Train(run) == one);
    }
  }
  const SmallResult narrow = TrainOn("", "1f1b", 1, proto::BF16);
  for (SmallRun& run : OtherSchedules("")) {
    INFO("bf16 " << run.mesh << " " << run.schedule << " " << run.chunks);
    run.precision = proto::BF16;
    CHECK(Train(run) == narrow);
  }
}

TEST_CASE("An order fitted to a cluster gives the bits of any other that is compiled for it") {
  for (const std::string rest : {"", "data=2", "tensor=2"}) {
    INFO(rest);
    SmallRun run;
    // Slow at products, so that attention makes F and B longer than W.
    run.cluster.mutable_device()->set_peak_flops(1e9);
    run.cluster.mutable_device()->set_memory_bandwidth(1e12);
    run.model.sequence = 64;
    run.mesh = rest;
    run.global_norm = false;
    run.steps = 5;
    run.batch = 32, run.micro_batches = 16;
    const SmallResult one = Train(run);
    run.mesh = rest.empty() ? "pipe=4" : "pipe=4," + rest;
    run.schedule = "zero_bubble";
    run.extra_in_flight = 12;
    const proto::Plan plan = CompileSmall(run);
    CHECK(std::any_of(
        plan.facts().note().begin(), plan.facts().note().end(),
        [](const std::string& note) { return note.find("schedule zero_bubble: fitted") == 0; }));
    CHECK(Train(run) == one);
  }
}

TEST_CASE("Updates that do not wait for the norm give the same bits under any schedule, too") {
  SmallRun run;
  run.global_norm = false;
  const SmallResult one = Train(run);
  CHECK(one != TrainOn(""));  // which clips
  for (SmallRun& other : OtherSchedules("")) {
    INFO(other.mesh << " " << other.schedule << " " << other.chunks);
    other.global_norm = false;
    CHECK(Train(other) == one);
  }
}

TEST_CASE("Recompute, of blocks, of single ops or of both, changes no bit") {
  const auto runs = [](const std::string& recompute) {
    std::vector<SmallRun> runs;
    for (const char* mesh : {"", "tensor=2", "pipe=2,data=2"}) {
      for (const proto::DataType precision : {proto::F32, proto::BF16}) {
        SmallRun& run = runs.emplace_back();
        run.model.dropout = 0.1;
        run.mesh = mesh;
        run.precision = precision;
        run.recompute = recompute;
        run.steps = 8;
      }
    }
    SmallRun& chunks = runs.emplace_back();
    chunks.mesh = "pipe=2";
    chunks.schedule = "interleaved";
    chunks.recompute = recompute;
    SmallRun& split = runs.emplace_back();
    split.mesh = "pipe=2";
    split.schedule = "zero_bubble";
    split.recompute = recompute;
    return runs;
  };
  const std::vector<SmallRun> kept = runs("none");
  for (const std::string policy : {"selective", "full", "none:1,full:1,selective"}) {
    const std::vector<SmallRun> again = runs(policy);
    for (size_t i = 0; i < kept.size(); ++i) {
      INFO(policy << " " << kept[i].mesh << " " << kept[i].schedule << " " << kept[i].precision);
      CHECK(Train(again[i]) == Train(kept[i]));
    }
  }
}

TEST_CASE("Kernels that are fused change no bit") {
  const auto actors = [](const SmallRun& run) {
    int count = 0;
    const proto::Plan plan = CompileSmall(run);
    for (const proto::Program& program : plan.program()) count += program.actor_size();
    return count;
  };
  for (const char* mesh : {"", "tensor=2", "pipe=2"}) {
    for (const proto::DataType precision : {proto::F32, proto::BF16}) {
      SmallRun run;
      run.mesh = mesh;
      run.precision = precision;
      run.steps = 8;
      SmallRun apart = run;
      apart.fuse = false;
      INFO(mesh << " " << precision);
      CHECK(actors(apart) > actors(run));
      CHECK(Train(apart) == Train(run));
    }
  }
}

TEST_CASE("A step whose micro-batches are no multiple of the stages interleaves, too") {
  SmallRun run;
  run.batch = 10;
  run.micro_batches = 5;
  const SmallResult one = Train(run);
  run.mesh = "pipe=2";
  run.schedule = "interleaved";
  CHECK(Train(run) == one);
}

TEST_CASE("bf16 follows f32, and any mesh follows one device, within a hundredth of the loss") {
  const SmallResult wide = TrainOn("");
  const SmallResult serial = TrainOn("", "1f1b", 1, proto::BF16);
  CHECK(serial.losses != wide.losses);
  CHECK(LargestDifference(serial, wide) < 1e-2);
  for (const std::string mesh : {"data=2", "tensor=2", "pipe=2,data=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(TrainOn(mesh, "1f1b", 1, proto::BF16), serial) < 1e-2);
  }
}

TEST_CASE("In bf16, too, pipe degree, schedule, threads and repetition do not change a bit") {
  for (const std::string rest : {"", "data=2", "tensor=2"}) {
    INFO(rest);
    const SmallResult one = TrainOn(rest, "1f1b", 1, proto::BF16);
    CHECK(TrainOn(rest, "1f1b", 2, proto::BF16) == one);
    for (const std::string pipe : {"pipe=2", "pipe=4"}) {
      const std::string mesh = pipe + (rest.empty() ? "" : "," + rest);
      INFO(mesh);
      CHECK(TrainOn(mesh, "1f1b", 1, proto::BF16) == one);
      CHECK(TrainOn(mesh, "gpipe", 1, proto::BF16) == one);
    }
  }
}

TEST_CASE("Kernels that share their work over threads do not change a bit") {
  for (const auto& [mesh, precision] :
       {std::pair("", proto::F32), std::pair("data=2", proto::F32), std::pair("", proto::BF16)}) {
    SmallRun run;
    run.mesh = mesh;
    run.precision = precision;
    run.steps = 3;
    run.model.hidden = 128;  // large enough that products, rows and columns are shared out
    run.model.sequence = 48;
    run.model.vocab = 509;
    const SmallResult one = Train(run);
    for (const int threads : {2, 3}) {
      INFO(mesh << " precision " << precision << " threads " << threads);
      run.threads = threads;
      CHECK(Train(run) == one);
    }
  }
}

TEST_CASE(
    "Positions split between blocks: the losses of one device, the same bits at any pipe degree") {
  const SmallResult serial = TrainOn("");
  SmallRun run;
  run.split_positions = true;
  for (const std::string rest : {"tensor=2", "data=2,tensor=2"}) {
    INFO(rest);
    run.mesh = rest;
    const SmallResult one = Train(run);
    CHECK(LargestDifference(one, serial) < 1e-5);
    run.mesh = "pipe=2," + rest;
    CHECK(Train(run) == one);
  }
}

SmallRun DropoutRun(const std::string& mesh, const std::string& schedule = "1f1b") {
  SmallRun run;
  run.model.dropout = 0.2;
  run.mesh = mesh;
  run.schedule = schedule;
  return run;
}

TEST_CASE("Dropout is the same on any mesh and in any micro-batches") {
  const SmallResult serial = Train(DropoutRun(""));
  REQUIRE(LargestDifference(serial, TrainOn("")) > 1e-3);  // it does something
  for (const std::string mesh : {"data=2", "tensor=2", "pipe=2,data=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(Train(DropoutRun(mesh)), serial) < 1e-5);
  }
  for (const int64_t micro_batches : {1, 2, 8}) {
    INFO("micro-batches " << micro_batches);
    SmallRun run = DropoutRun("");
    run.micro_batches = micro_batches;
    CHECK(LargestDifference(Train(run), serial) < 1e-5);
  }
}

TEST_CASE("With dropout, too, pipe degree, schedule and threads do not change a bit") {
  for (const std::string rest : {"", "data=2"}) {
    const SmallResult one = Train(DropoutRun(rest));
    for (const std::string pipe : {"pipe=2", "pipe=4"}) {
      const std::string mesh = pipe + (rest.empty() ? "" : "," + rest);
      INFO(mesh);
      CHECK(Train(DropoutRun(mesh)) == one);
      CHECK(Train(DropoutRun(mesh, "gpipe")) == one);
    }
    SmallRun threads = DropoutRun(rest);
    threads.threads = 3;
    CHECK(Train(threads) == one);
    SmallRun seed = DropoutRun(rest);
    seed.seed = 2;
    CHECK(Train(seed) != one);
  }
}

}  // namespace
}  // namespace oneflow
