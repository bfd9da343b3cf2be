// Splitting states, gradients and weights at rest changes no bit of a plan that splits nothing,
// whatever is gathered when; gradients that are reduced as a micro-batch ends have the bits of a
// plan that reduces them so and splits nothing.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "oneflow_core/model/sharding.h"
#include "oneflow_core/print/variable_text.h"
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

// What a plan has the bits of, by the sentence that `compile` prints: nothing is split, and
// gradients are reduced as it says.
Sharding Reference(const std::string& bits) {
  constexpr char kReduce[] = "--reduce=";
  Sharding unsplit;
  if (const size_t at = bits.find(kReduce); at != std::string::npos) {
    unsplit.reduced = ParseReduce(kReduce, bits.substr(at + sizeof(kReduce) - 1)).value();
  }
  return unsplit;
}

void CheckBits(const SmallRun& run, const std::vector<Sharding>& shardings) {
  for (const Sharding& shard : shardings) {
    INFO(run.mesh << " " << ToString(shard) << ", gather " << static_cast<int>(shard.gather)
                  << (run.global_norm ? "" : ", no norm") << ", micro-batches " << run.micro_batches
                  << ", " << run.schedule);
    SmallRun split_run = run;
    split_run.shard = shard;
    const proto::Plan plan = CompileSmall(split_run);
    const std::string bits = BitsText(plan);
    INFO(bits);
    REQUIRE(bits.find("equal to those of the plan without --shard") != std::string::npos);
    const Trained split = TrainAndSave(split_run, plan), full = TrainWith(run, Reference(bits));
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
  CheckBits(run, {ShardGradients()});
  run.micro_batches = 4;
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
  for (const Sharding& shard : {Parse("states:data,gradients:data,weights:data.1"), ShardWeights(),
                                Parse("states:data.1")}) {
    SmallRun split_run = run;
    split_run.shard = shard;
    const proto::Plan plan = CompileSmall(split_run);
    CHECK(BitsText(plan).starts_with("within rounding of the plan without --shard"));
    const Trained split = TrainAndSave(split_run, plan);
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
