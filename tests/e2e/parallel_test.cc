// Parallel equals serial: data, tensor and pipe in {1, 2} and their products, GPipe and 1F1B.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "catch2/catch.hpp"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallRun On(const std::string& mesh, SmallRun run = {}) {
  run.Set("mesh", mesh);
  return run;
}

SmallResult TrainOn(const std::string& mesh, const SmallRun& run = {}) {
  return Train(On(mesh, run));
}

SmallRun Narrow() {
  SmallRun run;
  run.Set("--precision=bf16");
  return run;
}

SmallRun Dropout() {
  SmallRun run;
  run.model.set_dropout(0.2);
  return run;
}

SmallRun NoNorm() {
  SmallRun run;
  run.Set("--global_norm=false");
  return run;
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

// `run` on a pipe before the axes `rest`, under each schedule.
std::vector<SmallRun> OnPipes(const SmallRun& run, const std::string& rest) {
  std::vector<SmallRun> runs;
  const auto add = [&](const char* pipe, const char* schedule, int chunks, int64_t extra) {
    SmallRun& other = runs.emplace_back(On(pipe + (rest.empty() ? "" : "," + rest), run));
    other.recipe.set_schedule(schedule);
    other.recipe.set_chunks(chunks);
    other.recipe.set_extra_in_flight(extra);
  };
  for (const char* pipe : {"pipe=2", "pipe=4"}) {
    for (const char* schedule : {"1f1b", "gpipe"}) add(pipe, schedule, 1, 0);
  }
  add("pipe=2", "interleaved", 2, 0);
  add("pipe=1", "interleaved", 4, 0);
  add("pipe=2", "1f1b", 1, 1);
  add("pipe=2", "zero_bubble", 1, 0);
  add("pipe=4", "zero_bubble", 1, 3);
  return runs;
}

TEST_CASE("Pipe degree, schedule, chunks, threads and repetition do not change a bit") {
  for (const SmallRun& run : {SmallRun(), Narrow(), Dropout(), NoNorm()}) {
    for (const std::string rest : {"", "data=2", "tensor=2"}) {
      const SmallResult one = TrainOn(rest, run);
      std::vector<SmallRun> others = OnPipes(run, rest);
      others.push_back(On(rest, run));
      others.push_back(On(rest, run)), others.back().threads = 3;
      for (const SmallRun& other : others) {
        INFO(other.Get("mesh") << " " << other.recipe.schedule() << " " << other.recipe.chunks()
                               << " of " << other.recipe.extra_in_flight() << ", precision "
                               << other.recipe.precision() << ", dropout " << other.model.dropout()
                               << ", norm " << other.recipe.global_norm());
        CHECK(Train(other) == one);
      }
    }
  }
}

TEST_CASE("A seed, dropout and clipping by the norm matter") {
  SmallRun seed = Dropout();
  seed.seed = 2;
  CHECK(Train(seed) != Train(Dropout()));
  CHECK(LargestDifference(Train(Dropout()), Train({})) > 1e-3);
  CHECK(Train(NoNorm()) != Train({}));
}

TEST_CASE("An order fitted to a cluster gives the bits of any other that is compiled for it") {
  for (const std::string rest : {"", "data=2", "tensor=2"}) {
    INFO(rest);
    SmallRun run;
    // Slow at products, so that attention makes F and B longer than W.
    run.cluster.mutable_device()->set_peak_flops(1e9);
    run.cluster.mutable_device()->set_memory_bandwidth(1e12);
    run.model.set_sequence(64);
    run.Set("mesh", rest);
    run.Set("--global_norm=false");
    run.steps = 5;
    run.Set("--batch=32 --micro_batches=16");
    const SmallResult one = Train(run);
    run.Set("mesh", rest.empty() ? "pipe=4" : "pipe=4," + rest);
    run.Set("--schedule=zero_bubble --extra_in_flight=12");
    CHECK(CompileSmall(run).recipe().has_warm_ups());
    CHECK(Train(run) == one);
  }
}

TEST_CASE("Recompute, of blocks, of single ops or of both, changes no bit") {
  const auto runs = [](const std::string& recompute) {
    std::vector<SmallRun> runs;
    for (const char* mesh : {"", "tensor=2", "pipe=2,data=2"}) {
      for (const proto::DataType precision : {proto::F32, proto::BF16}) {
        SmallRun& run = runs.emplace_back();
        run.model.set_dropout(0.1);
        run.Set("mesh", mesh);
        run.recipe.set_precision(precision);
        run.Set("recompute", recompute);
        run.steps = 8;
      }
    }
    for (const char* schedule : {"interleaved", "zero_bubble"}) {
      SmallRun& run = runs.emplace_back(On("pipe=2"));
      run.recipe.set_schedule(schedule);
      run.Set("recompute", recompute);
    }
    return runs;
  };
  const std::vector<SmallRun> kept = runs("none");
  for (const std::string policy : {"selective", "full", "none:1,full:1,selective"}) {
    const std::vector<SmallRun> again = runs(policy);
    for (size_t i = 0; i < kept.size(); ++i) {
      INFO(policy << " " << FlagsText(RecipeRows(), kept[i].recipe));
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
      run.Set("mesh", mesh);
      run.recipe.set_precision(precision);
      run.steps = 8;
      SmallRun apart = run;
      apart.Set("--fuse=false");
      INFO(mesh << " " << precision);
      CHECK(actors(apart) > actors(run));
      CHECK(Train(apart) == Train(run));
    }
  }
}

TEST_CASE("A step whose micro-batches are no multiple of the stages interleaves, too") {
  SmallRun run;
  run.Set("--batch=10 --micro_batches=5");
  const SmallResult one = Train(run);
  run.Set("--mesh=pipe=2 --schedule=interleaved");
  CHECK(Train(run) == one);
}

TEST_CASE("bf16 follows f32, and any mesh follows one device, within a hundredth of the loss") {
  const SmallResult wide = TrainOn(""), serial = Train(Narrow());
  CHECK(serial.losses != wide.losses);
  CHECK(LargestDifference(serial, wide) < 1e-2);
  for (const std::string mesh : {"data=2", "tensor=2", "pipe=2,data=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(TrainOn(mesh, Narrow()), serial) < 1e-2);
  }
}

TEST_CASE("Kernels that share their work over threads do not change a bit") {
  for (const auto& [mesh, precision] :
       {std::pair("", proto::F32), std::pair("data=2", proto::F32), std::pair("", proto::BF16)}) {
    SmallRun run;
    run.Set("mesh", mesh);
    run.recipe.set_precision(precision);
    run.steps = 3;
    run.model.set_hidden(128);  // large enough that products, rows and columns are shared out
    run.model.set_sequence(48);
    run.model.set_vocab(509);
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
  run.Set("--sequence_parallel");
  for (const std::string rest : {"tensor=2", "data=2,tensor=2"}) {
    INFO(rest);
    run.Set("mesh", rest);
    const SmallResult one = Train(run);
    CHECK(LargestDifference(one, serial) < 1e-5);
    run.Set("mesh", "pipe=2," + rest);
    CHECK(Train(run) == one);
  }
}

TEST_CASE("Dropout is the same on any mesh and in any micro-batches") {
  const SmallResult serial = Train(Dropout());
  for (const std::string mesh : {"data=2", "tensor=2", "pipe=2,data=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(TrainOn(mesh, Dropout()), serial) < 1e-5);
  }
  for (const int64_t micro_batches : {1, 2, 8}) {
    INFO("micro-batches " << micro_batches);
    SmallRun run = Dropout();
    run.recipe.set_micro_batches(micro_batches);
    CHECK(LargestDifference(Train(run), serial) < 1e-5);
  }
}

}  // namespace
}  // namespace oneflow
