// Splitting states, gradients and weights at rest changes no bit of a plan that splits nothing,
// whatever is gathered when; gradients that are reduced as a micro-batch ends have the bits of a
// plan that reduces them so and splits nothing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallRun MakeRun(const std::string& mesh) {
  SmallRun run;
  run.model.layers = 2;
  run.mesh = mesh;
  run.batch = 32;
  run.steps = 4;
  return run;
}

Trained TrainWith(SmallRun run, const Sharding& shard) {
  run.shard = shard;
  return TrainAndSave(run, CompileSmall(run));
}

Sharding Parse(const std::string& text) { return ParseSharding("--shard=", text).value(); }

// Nothing is split, and gradients are reduced where those of `shard` are.
Sharding Unsplit(const Sharding& shard) {
  Sharding unsplit;
  unsplit.reduced = shard.gradients;
  for (const std::string& axis : shard.reduced) {
    const auto& have = unsplit.reduced;
    if (std::find(have.begin(), have.end(), axis) == have.end()) unsplit.reduced.push_back(axis);
  }
  return unsplit;
}

void CheckBits(const SmallRun& run, const std::vector<Sharding>& shardings) {
  for (const Sharding& shard : shardings) {
    INFO(run.mesh << " " << ToString(shard) << ", gather " << static_cast<int>(shard.gather)
                  << (run.global_norm ? "" : ", no norm") << ", micro-batches " << run.micro_batches
                  << ", " << run.schedule);
    const Trained split = TrainWith(run, shard), full = TrainWith(run, Unsplit(shard));
    CHECK(split.result.losses == full.result.losses);
    CHECK(split.result.norms == full.result.norms);
    CHECK(split.variables == full.variables);
    REQUIRE(split.result.losses.back() < split.result.losses.front());
  }
}

std::vector<Sharding> AllShardings() {
  std::vector<Sharding> all = {ShardStates(), ShardGradients(), ShardWeights()};
  Sharding kept = ShardWeights();
  kept.gather = Sharding::Gather::kOnce;
  all.push_back(kept);
  Sharding reduced = ShardStates();
  reduced.reduced = {"data"};
  all.push_back(reduced);
  return all;
}

TEST_CASE("A split of states, gradients or weights changes no bit") {
  for (const std::string mesh : {"data=2", "data=4", "data=8", "data=3", "data=2,tensor=2"}) {
    SmallRun run = MakeRun(mesh);
    if (mesh == "data=3") run.batch = 36;  // and 16 of hidden, which 3 do not divide
    CheckBits(run, AllShardings());
  }
}

TEST_CASE("so it is without a norm, with one micro-batch, and in bf16") {
  SmallRun run = MakeRun("data=4");
  run.global_norm = false;
  CheckBits(run, {ShardStates(), ShardWeights()});
  run = MakeRun("data=4");
  run.micro_batches = 1;
  // There is one way to add up a single micro-batch.
  for (const Sharding& shard : AllShardings()) CHECK(TrainWith(run, shard) == TrainWith(run, {}));
  run.precision = proto::BF16;
  CheckBits(run, {ShardStates(), ShardGradients(), ShardWeights()});
}

TEST_CASE("so it is with stages, chunks, overlap and recompute") {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    SmallRun run = MakeRun("pipe=2,data=2");
    run.model.layers = 4;
    run.schedule = schedule;
    CheckBits(run, {ShardStates(), ShardWeights()});
    run.overlap = true;
    run.recompute = "full";
    CheckBits(run, {ShardGradients(), ShardWeights()});
  }
}

TEST_CASE("factors of an axis are split and gathered apart") {
  const SmallRun run = MakeRun("data=2x4");
  Sharding inner = Parse("states:data,gradients:data.1,weights:data.1");
  std::vector<Sharding> all = {inner, Parse("states:data.1,gradients:data.1,weights:data.1"),
                               Parse("states:data,gradients:data.1")};
  inner.gather = Sharding::Gather::kOnce;
  all.push_back(inner);
  CheckBits(run, all);
  // Parts over both factors are summed in the order of the factors, which is not the one that is
  // cheapest for full gradients.
  const Trained full = TrainWith(run, {});
  for (const Sharding& shard :
       {Parse("states:data,gradients:data,weights:data.1"), ShardWeights()}) {
    const Trained split = TrainWith(run, shard);
    for (size_t i = 0; i < full.result.losses.size(); ++i) {
      CHECK(split.result.losses[i] == Approx(full.result.losses[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE("a forward and its backward may share what is gathered") {
  SmallRun run = MakeRun("data=4");
  Sharding shared = ShardWeights();
  shared.gather = Sharding::Gather::kEachMicroBatch;
  CheckBits(run, {shared});
}

}  // namespace
}  // namespace oneflow
