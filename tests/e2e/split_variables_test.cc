// Splitting states, gradients and weights at rest changes no bit of a plan that splits nothing,
// whatever is gathered when; gradients that are reduced as a micro-batch ends have the bits of a
// plan that reduces them so and splits nothing.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/print/variable_text.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

// How variables are split: flags.
constexpr char kStates[] = "--shard=states", kGradients[] = "--shard=gradients",
               kWeights[] = "--shard=weights";

SmallRun MakeRun(const std::string& mesh) {
  SmallRun run;
  run.model.set_layers(2);
  run.Set("mesh", mesh);
  run.Set("--batch=32");
  run.steps = 4;
  return run;
}

Trained TrainWith(SmallRun run, const std::string& shard) {
  run.Set(shard);
  return TrainAndSave(run, CompileSmall(run));
}

// A model with norms of queries and keys, whose gradients are partial over `tensor`, too.
void UseLlama(proto::Graph* graph) {
  *graph =
      BuildModel(MakeModel("family: 'llama' layers: 1 hidden: 16 inner: 16 heads: 2 groups: 2 "
                           "head_dim: 4 sequence: 8 vocab: 21 qk_norm: true"));
}

// What a plan has the bits of, by the sentence that `compile` prints: nothing is split, and
// gradients are reduced as it says.
std::string Reference(const std::string& bits) {
  const size_t at = bits.find("--reduce=");
  return at == std::string::npos ? "" : bits.substr(at);
}

void CheckBits(const SmallRun& run, const std::vector<std::string>& shardings) {
  for (const std::string& shard : shardings) {
    INFO(run.Get("mesh") << " " << shard << (run.recipe.global_norm() ? "" : ", no norm")
                         << ", micro-batches " << run.recipe.micro_batches() << ", "
                         << run.recipe.schedule());
    SmallRun split_run = run;
    split_run.Set(shard);
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

// Nobody's bits are promised, and they agree within rounding.
void CheckRounding(const SmallRun& run, const std::string& shard) {
  INFO(run.Get("mesh") << " " << shard);
  SmallRun split_run = run;
  split_run.Set(shard);
  const proto::Plan plan = CompileSmall(split_run);
  CHECK(BitsText(plan).starts_with("within rounding of the plan without --shard"));
  const Trained split = TrainAndSave(split_run, plan), full = TrainWith(run, "");
  for (size_t i = 0; i < full.result.losses.size(); ++i) {
    CHECK(split.result.losses[i] == Approx(full.result.losses[i]).epsilon(1e-5));
  }
}

std::vector<std::string> AllShardings() {
  return {kStates, kGradients, kWeights, "--shard=weights --gather=once",
          "--shard=states --reduce=each_micro_batch"};
}

TEST_CASE("A split of states, gradients or weights changes no bit") {
  for (const std::string mesh : {"data=2", "data=4", "data=8", "data=3", "data=2,tensor=2"}) {
    SmallRun run = MakeRun(mesh);
    if (mesh == "data=3") run.Set("--batch=36");  // and 16 of hidden, which 3 do not divide
    CheckBits(run, AllShardings());
  }
}

TEST_CASE("so it is without a norm, with one micro-batch, and in bf16") {
  SmallRun run = MakeRun("data=4");
  run.Set("--global_norm=false");
  CheckBits(run, {kStates, kWeights});
  run = MakeRun("data=4");
  run.Set("--micro_batches=1");
  // There is one way to add up a single micro-batch.
  for (const std::string& shard : AllShardings())
    CHECK(TrainWith(run, shard) == TrainWith(run, ""));
  CheckBits(run, {kGradients});
  run.Set("--micro_batches=4 --precision=bf16");
  CheckBits(run, {kStates, kGradients, kWeights});
}

TEST_CASE("so it is with stages, chunks, overlap and recompute") {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    SmallRun run = MakeRun("pipe=2,data=2");
    run.model.set_layers(4);
    run.recipe.set_schedule(schedule);
    CheckBits(run, {kStates, kWeights});
    run.Set("--overlap --recompute=full");
    CheckBits(run, {kGradients, kWeights});
  }
}

TEST_CASE("factors of an axis are split and gathered apart") {
  const SmallRun run = MakeRun("data=2x4");
  const std::string inner = "--shard=states:data,gradients:data.1,weights:data.1";
  CheckBits(run, {inner, "--shard=states:data.1,gradients:data.1,weights:data.1",
                  "--shard=states:data,gradients:data.1", inner + " --gather=once"});
  // Parts over both factors are summed in the order of the factors, which is not the one that is
  // cheapest for full gradients.
  for (const char* shard :
       {"--shard=states:data,gradients:data,weights:data.1", kWeights, "--shard=states:data.1"}) {
    CheckRounding(run, shard);
  }
}

TEST_CASE("gradients that are partial over tensor axes, too, are summed axis by axis where split") {
  SmallRun run = MakeRun("tensor=2,data=2");
  run.edit = UseLlama;
  CheckRounding(run, kStates);
  // As a micro-batch ends over data, and once a step over tensor: one axis each.
  CheckBits(run, {kGradients, kWeights});
  run.Set("--mesh=tensor=2,data=2x2");
  CheckRounding(run, "--shard=states:data.1,gradients:data.1");
  run.Set("--mesh=tensor=2,data=2 --micro_batches=1");
  CheckBits(run, {kGradients});
}

// Layouts over tensor are chosen by costs that are close in small models: whatever states are split
// over, the same ones are chosen.
TEST_CASE("small heads are split over tensor as they are where nothing is split over data") {
  for (const int64_t head_dim : {2, 4, 8}) {
    for (const bool split_positions : {false, true}) {
      SmallRun run = MakeRun("tensor=2,data=2");
      run.Set("--batch=16 --micro_batches=2");
      run.recipe.set_sequence_parallel(split_positions);
      run.edit = [head_dim](proto::Graph* graph) {
        *graph = BuildModel(MakeModel(absl::StrCat(
            "family: 'llama' layers: 1 hidden: 16 inner: 16 heads: 2 groups: 2 head_dim: ",
            head_dim, " sequence: 16 vocab: 256 qk_norm: true")));
      };
      INFO(head_dim);
      CheckBits(run, {kGradients, kWeights});
    }
  }
}

TEST_CASE("with one micro-batch, what is reduced as it ends comes before what is reduced once") {
  for (const std::string mesh : {"data=2x2", "data=2x4"}) {
    SmallRun run = MakeRun(mesh);
    run.Set("--micro_batches=1");
    const std::string inner = "--shard=states:data,gradients:data.1";
    SmallRun split_run = run;
    split_run.Set(inner);
    CHECK(BitsText(CompileSmall(split_run)).find("--reduce=each_micro_batch:data.1") !=
          std::string::npos);
    CheckBits(run, {inner, "--shard=states:data,gradients:data.1,weights:data.1"});
    split_run.Set("--shard=none --reduce=each_micro_batch:data.1");
    CHECK(BitsText(CompileSmall(split_run)).find("another order than once a step") !=
          std::string::npos);
  }
}

TEST_CASE(
    "a variable that a constraint keeps replicated has a gradient that is reduced as others") {
  SmallRun run = MakeRun("data=2");
  run.edit = [](proto::Graph* graph) {
    for (proto::Op& op : *graph->mutable_op()) {
      if (op.name() == "h.0.ln_2.weight" || op.name() == "h.1.mlp.fc.bias") {
        (*op.add_sbp()->mutable_on())["data"] = "B";
      }
    }
  };
  CheckBits(run, AllShardings());
  // So it is not where attributes say so. What one op gives for two variables adds up all the same.
  run.edit = [](proto::Graph* graph) {
    for (proto::Op& op : *graph->mutable_op()) {
      if (op.name() != "h.0.ln_2.weight") continue;
      for (const char* attr : {"states", "gradients"}) (*op.mutable_attr())[attr].set_s("");
    }
  };
  const Trained split = TrainWith(run, kGradients), full = TrainWith(run, "");
  CHECK(split.result.losses.back() == Approx(full.result.losses.back()).epsilon(1e-5));
}

TEST_CASE("a forward and its backward may share what is gathered") {
  SmallRun run = MakeRun("data=4");
  CheckBits(run, {"--shard=weights --gather=each_micro_batch"});
}

}  // namespace
}  // namespace oneflow
