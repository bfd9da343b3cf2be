// Mixtures of experts: any mesh gives the losses of one device, whatever splits the experts, with
// and without slots that are full; and what changes no bit elsewhere changes none here. Biases that
// a rule moves even out the experts.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "catch2/catch.hpp"
#include "compiler/compile.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/model.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

struct Mixture {
  double slots = 0;
  int64_t slot_groups = 4, experts = 4;
  int64_t groups = 0;       // of a mixture that drops nothing; 0: as the mesh says
  bool one_expert = false;  // every token chooses the first experts
  int64_t shared = 0;
  double bias_rate = 0;      // of scores by sigmoid; the biases begin far apart
  bool dense_first = false;  // three blocks, of which the first has no experts
  bool expert_bias = false;
};

proto::Model Config(const Mixture& mixture) {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(2), config.set_hidden(16), config.set_inner(12), config.set_heads(4),
      config.set_groups(4);
  config.set_head_dim(4), config.set_sequence(8), config.set_vocab(24), config.set_tied(true);
  config.set_experts(mixture.experts), config.set_experts_per_token(2);
  config.set_slots(mixture.slots), config.set_slot_groups(mixture.slot_groups);
  if (mixture.dense_first) {
    config.set_layers(3);
    *config.mutable_blocks() =
        MakeModel(
            "family: 'llama' blocks { classes { name: 'dense' numbers { experts: 0 inner: 20 } } "
            "classes { name: 'mixture' } run { count: 1 index: 0 } run { index: 1 } }")
            .blocks();
  }
  config.set_expert_bias(mixture.expert_bias);
  config.set_shared_inner(mixture.shared);
  config.set_bias_rate(mixture.bias_rate);
  if (mixture.bias_rate > 0) config.set_scores("sigmoid"), config.set_aux_loss_coeff(0);
  return config;
}

void Edit(const Mixture& mixture, proto::Graph* graph) {
  *graph = BuildModel(Config(mixture));
  for (proto::Op& op : *graph->mutable_op()) {
    if (mixture.groups > 0 &&
        (op.kind() == "route" || op.kind() == "dispatch" || op.kind() == "combine")) {
      (*op.mutable_attr())["groups"].set_i(mixture.groups);
    }
    if (mixture.one_expert && op.name().ends_with("router.weight")) {
      (*op.mutable_attr())["init"].set_s("zeros");
    }
    if (op.name().ends_with(".bias")) {
      (*op.mutable_attr())["init"].set_s("normal");
      (*op.mutable_attr())["init_value"].set_f(0.2);
    }
  }
}

SmallRun MakeRun(const std::string& mesh, const Mixture& mixture = {}) {
  SmallRun run;
  const proto::Model config = Config(mixture);
  run.model.set_vocab(config.vocab()), run.model.set_sequence(config.sequence());
  run.edit = [mixture](proto::Graph* graph) { Edit(mixture, graph); };
  run.Set("mesh", mesh);
  run.Set("--batch=16 --micro_batches=2");
  return run;
}

void CheckNear(const SmallResult& a, const SmallResult& b, double relative) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    INFO("step " << i);
    REQUIRE(std::isfinite(a.losses[i]));
    CHECK(std::abs(a.losses[i] - b.losses[i]) <= relative * std::abs(b.losses[i]));
  }
}

const std::vector<std::string> kMeshes = {"data=2",
                                          "tensor=2",
                                          "pipe=2",
                                          "expert=2",
                                          "data=4",
                                          "tensor=4",
                                          "expert=4",
                                          "data=2,tensor=2",
                                          "data=2,expert=2",
                                          "tensor=2,expert=2",
                                          "pipe=2,expert=2",
                                          "data=2,expert=4",
                                          "pipe=2,expert=4",
                                          "tensor=2,expert=4",
                                          "data=4,expert=2",
                                          "data=2,tensor=2,expert=2",
                                          "pipe=2,data=2,expert=2",
                                          "pipe=2,tensor=2,expert=2",
                                          "pipe=2,data=2,tensor=2"};

const std::vector<std::string> kExpertMeshes = {"expert=2", "data=2,expert=2", "tensor=2,expert=2",
                                                "pipe=2,expert=4"};

// Each mesh with one of the first three mixtures, in the full tier with all.
TEST_CASE("20 steps of a mixture on any mesh give the losses of one device within 1e-5") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  size_t turn = 0;
  for (const Mixture& mixture : {Mixture{}, Mixture{.groups = 4}, Mixture{.slots = 1.25},
                                 Mixture{.shared = 8}, Mixture{.one_expert = true}}) {
    const SmallResult one = Train(MakeRun("", mixture));
    REQUIRE(one.losses.back() < one.losses.front() - 0.5);  // it learns
    // What one expert has more of, or a further MLP beside them, matters where experts are split.
    const bool few = mixture.shared > 0 || mixture.one_expert;
    const size_t first = few || full ? 0 : turn++, every = few || full ? 1 : 3;
    const std::vector<std::string>& meshes = few ? kExpertMeshes : kMeshes;
    for (size_t i = first; i < meshes.size(); i += every) {
      const std::string& mesh = meshes[i];
      INFO(mesh << ", slots " << mixture.slots << ", groups " << mixture.groups << ", shared "
                << mixture.shared << (mixture.one_expert ? ", one expert" : ""));
      CheckNear(Train(MakeRun(mesh, mixture)), one, 1e-5);
    }
  }
}

// As in GLM 4.5: the first block is dense, the others have an MLP for all tokens beside the
// experts, and routers with a bias that a rule moves. Biases of experts are those of gpt-oss.
TEST_CASE("a dense block, mixtures and biases of experts train on any mesh as on one device") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const Mixture glm{.shared = 8, .bias_rate = 0.02, .dense_first = true, .expert_bias = true};
  const SmallResult one = Train(MakeRun("", glm));
  REQUIRE(one.losses.back() < one.losses.front() - 0.5);
  // 2 of the 3 blocks, 16 sequences of 8 tokens, 2 choices of each.
  CHECK(std::accumulate(one.choices[0].begin(), one.choices[0].end(), 0.0) == 2 * 16 * 8 * 2);
  const std::vector<std::string> some = {"pipe=3", "data=2,tensor=2,expert=2", "pipe=2,expert=4"};
  for (const std::string& mesh : full ? kMeshes : some) {
    INFO(mesh);
    const SmallResult other = Train(MakeRun(mesh, glm));
    CheckNear(other, one, 1e-5);
    CHECK(other.choices == one.choices);
  }
}

TEST_CASE("experts may lie on a factor of data") {
  const SmallResult one = Train(MakeRun(""));
  for (const std::string mesh : {"data=2x2", "pipe=2,data=1x2", "data=2x2,tensor=2"}) {
    SmallRun run = MakeRun(mesh);
    run.Set("--experts=data.1");
    CheckNear(Train(run), one, 1e-5);
  }
}

TEST_CASE("schedule, stages, threads, recomputation and split states change no bit of a mixture") {
  for (const Mixture& mixture : {Mixture{}, Mixture{.slots = 1.25}}) {
    for (const std::string rest : {"", "data=2,expert=2"}) {
      INFO(rest << ", slots " << mixture.slots);
      SmallRun run = MakeRun(rest, mixture);
      run.steps = 5;
      const SmallResult one = Train(run);
      SmallRun other = run;
      other.threads = 2;
      CHECK(Train(other) == one);
      other = run;
      other.Set("--recompute=full");
      CHECK(Train(other) == one);
      other = run;
      other.Set("mesh", rest.empty() ? "pipe=2" : "pipe=2," + rest);
      for (const char* schedule : {"1f1b", "gpipe", "zero_bubble"}) {
        other.recipe.set_schedule(schedule);
        CHECK(Train(other) == one);
      }
      other.Set("mesh", rest.empty() ? "pipe=1" : "pipe=1," + rest);
      other.Set("--schedule=interleaved --chunks=2");
      CHECK(Train(other) == one);
      other = run;
      other.Set("--overlap");
      for (const auto& [shard, reduce] :
           {std::pair("states", "once"), std::pair("weights", "each_micro_batch")}) {
        other.Set("shard", shard);
        SmallRun reference = run;
        reference.Set("reduce", reduce);
        CHECK(Train(other) == Train(reference));
      }
    }
  }
}

// Queues are those of the graph: neither their number nor their slots follow what splits experts,
// tokens, micro-batches or blocks.
TEST_CASE("any mesh and any number of micro-batches drop the same choices") {
  SmallRun run = MakeRun("", {.slots = 1.1, .slot_groups = 4, .experts = 8});
  run.steps = 8;
  const SmallResult one = Train(run);
  REQUIRE(one.choices.size() == 8);
  for (const std::vector<double>& choices : one.choices) {
    REQUIRE(choices.size() == 9);
    REQUIRE(choices.back() > 0);
  }
  for (const auto& [mesh, micro_batches] : {std::pair("", 8),
                                            {"data=2", 2},
                                            {"tensor=2", 2},
                                            {"pipe=2", 4},
                                            {"expert=2", 2},
                                            {"expert=2", 1},
                                            {"expert=4", 4},
                                            {"data=2,expert=2", 4},
                                            {"tensor=2,expert=2", 1},
                                            {"pipe=2,expert=4", 4},
                                            {"pipe=2,data=2,expert=2", 2}}) {
    INFO(mesh << ", micro-batches " << micro_batches);
    run.Set("mesh", mesh);
    run.recipe.set_micro_batches(micro_batches);
    const SmallResult other = Train(run);
    CheckNear(other, one, 1e-5);
    CHECK(other.choices == one.choices);
  }
}

// Half of the choices of a router that knows one pair of experts find no slot.
TEST_CASE("a capacity drops what comes too late") {
  Mixture mixture{.one_expert = true};
  const SmallResult all = Train(MakeRun("", mixture));
  mixture.slots = 1;
  const SmallResult some = Train(MakeRun("", mixture));
  CHECK(some.losses[0] != all.losses[0]);
  mixture.slots = 2;  // k R / E slots, times E / k
  CHECK(Train(MakeRun("", mixture)) == all);
}

TEST_CASE("a plan that is priced does not run") {
  const SmallRun run = MakeRun("expert=2");
  const absl::StatusOr<proto::Plan> price =
      Compile(BuildModel(Config({})), "moe", {.recipe = run.recipe, .imbalance = 1.25});
  REQUIRE(price.ok());
  CHECK_THAT(std::string(ToStd(Runtime::Create(*price, {}).status().message())),
             Catch::Contains("has queues of a plan that is priced and not run: they would drop "
                             "tokens; compile the graph again"));
}

// The largest share of the choices of a step that one of four experts has.
double Hottest(const std::vector<double>& choices) {
  const auto last = choices.begin() + 4;
  return *std::max_element(choices.begin(), last) / std::accumulate(choices.begin(), last, 0.0);
}

using Biases = std::map<std::string, std::vector<std::byte>>;

// Of the variables that were trained: the biases of routers, which have no moments.
Biases FindBiases(const Trained& trained) {
  Biases biases;
  for (const auto& [name, bytes] : trained.variables) {
    if (name.find("router.bias") != name.npos) biases.emplace(name, bytes);
  }
  return biases;
}

Trained TrainAndSave(const SmallRun& run) { return TrainAndSave(run, CompileSmall(run)); }

TEST_CASE("a rule evens out experts by their biases, which are the same on any mesh") {
  SmallRun run = MakeRun("", {.bias_rate = 0.02});
  const Trained one = TrainAndSave(run);
  REQUIRE(one.result.choices.size() == 20);
  for (const std::vector<double>& choices : one.result.choices) {
    REQUIRE(choices.size() == 5);
    // 2 blocks, 16 sequences of 8 tokens, 2 choices of each; nothing is dropped.
    CHECK(std::accumulate(choices.begin(), choices.end(), 0.0) == 2 * 16 * 8 * 2);
    CHECK(choices[4] == 0);
  }
  CHECK(Hottest(one.result.choices.front()) > 0.45);
  CHECK(Hottest(one.result.choices.back()) < 0.32);
  const Biases biases = FindBiases(one);
  REQUIRE(biases.size() == 2);
  for (const std::string mesh : {"data=2", "tensor=2", "pipe=2", "expert=2", "data=2,expert=2",
                                 "tensor=2,expert=2", "pipe=2,expert=4"}) {
    INFO(mesh);
    run.Set("mesh", mesh);
    const Trained other = TrainAndSave(run);
    CheckNear(other.result, one.result, 1e-5);
    CHECK(other.result.choices == one.result.choices);
    CHECK(FindBiases(other) == biases);
  }
}

TEST_CASE("schedule, recomputation and split states change no bit of what a rule moves") {
  SmallRun run = MakeRun(
      "expert=2", {.slots = 1.25, .bias_rate = 0.02, .dense_first = true, .expert_bias = true});
  run.steps = 3;
  const Trained one = TrainAndSave(run);
  SmallRun other = run;
  other.Set("--mesh=pipe=2,expert=2 --schedule=zero_bubble --recompute=full");
  CHECK(TrainAndSave(other) == one);
  other = run;
  other.Set("--overlap");
  for (const auto& [shard, reduce] :
       {std::pair("states", "once"), std::pair("weights", "each_micro_batch")}) {
    other.Set("shard", shard);
    SmallRun reference = run;
    reference.Set("reduce", reduce);
    CHECK(TrainAndSave(other) == TrainAndSave(reference));
  }
}

// Updates that lag behind make the next version of a bias, from the choices of their own step.
TEST_CASE("biases have versions where weights have some") {
  SmallRun run = MakeRun("pipe=2", {.bias_rate = 0.02});
  run.Set("--schedule=2bw --global_norm=false");
  const SmallResult lagging = Train(run);
  CHECK(Hottest(lagging.choices.front()) > 0.45);
  CHECK(Hottest(lagging.choices.back()) < 0.35);
}

}  // namespace
}  // namespace oneflow
