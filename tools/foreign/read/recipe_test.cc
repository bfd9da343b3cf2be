#include "tools/foreign/read/recipe.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_join.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow::foreign {
namespace {

// 16 devices: data 4, tensor 2, pipe 2, of 32 sequences in 4 micro-batches.
Facts FactsFor16() {
  Facts facts;
  facts.system = "megatron-lm";
  facts.devices = 16;
  facts.degrees = {.tensor = 2, .pipe = 2, .data = 4};
  facts.batch = {.global = 32, .micro = 2, .micro_batches = 4};
  facts.schedule = {.name = "1f1b", .stage_layers = {4, 4}};
  facts.precision.here = "bf16";
  return facts;
}

std::string RecipeText(const Facts& facts) {
  const absl::StatusOr<ForeignRecipe> made = MakeForeignRecipe(facts);
  if (!made.ok()) return std::string(made.status().message());
  return FlagsText(RecipeRows(), made->recipe);
}

std::string NotesText(const Facts& facts) {
  const absl::StatusOr<ForeignRecipe> made = MakeForeignRecipe(facts);
  return made.ok() ? absl::StrJoin(made->notes, "\n") : std::string(made.status().message());
}

// "4" of --micro_batches=4; "" if the recipe does not say it.
std::string FindFlag(const Facts& facts, const std::string& name) {
  const std::string flags = " " + RecipeText(facts) + " ";
  const std::string begin = " --" + name + "=";
  const size_t at = flags.find(begin);
  if (at == std::string::npos) return "";
  const size_t from = at + begin.size();
  return flags.substr(from, flags.find(' ', from) - from);
}

TEST_CASE("degrees, batch and schedule") {
  Facts facts = FactsFor16();
  CHECK(RecipeText(facts) ==
        "--mesh=pipe=2,data=4,tensor=2 --device=cuda --split_products=true --shard=none "
        "--batch=32 --micro_batches=4 --schedule=1f1b --stage_layers=4,4 --precision=bf16");
  CHECK(NotesText(facts) == "");
  facts.degrees = {.data = 1};
  facts.schedule = {};
  CHECK(FindFlag(facts, "mesh") == "data=1");
  CHECK(FindFlag(facts, "schedule") == "");
  facts.batch.global.reset();
  CHECK(NotesText(facts) == "the batch of a step: is not said by the files; add --batch=SEQUENCES");
}

TEST_CASE("schedules that are not here") {
  Facts facts = FactsFor16();
  facts.schedule = {.name = "DualPipeV", .chunks = 2, .stage_layers = {2, 2, 2, 2}};
  CHECK(FindFlag(facts, "schedule") == "interleaved");
  CHECK(FindFlag(facts, "chunks") == "2");
  CHECK(NotesText(facts) == "the schedule is DualPipeV, here interleaved");
  facts.schedule = {.name = "LoopedBFS", .stage_layers = {4, 4}};
  CHECK(FindFlag(facts, "schedule") == "1f1b");
  facts.schedule = {.name = "zero_bubble", .stage_layers = {3, 5}};
  CHECK(FindFlag(facts, "schedule") == "zero_bubble");
  CHECK(FindFlag(facts, "stage_layers") == "3,5");
  CHECK(NotesText(facts) == "");
}

TEST_CASE("what is sharded, over which axes, in how many copies") {
  Facts facts = FactsFor16();
  facts.sharding = {.what = "states", .over = {"data"}, .ways = 4};
  CHECK(FindFlag(facts, "shard") == "states");
  facts.sharding.what = "gradients";
  facts.sharding.reduce = "each micro-batch";
  CHECK(FindFlag(facts, "shard") == "gradients");
  CHECK(FindFlag(facts, "reduce") == "");
  facts.sharding = {.what = "weights",
                    .over = {"data"},
                    .ways = 2,
                    .replicas = 2,
                    .gather = "each micro-batch",
                    .reduce = "each micro-batch"};
  CHECK(FindFlag(facts, "mesh") == "pipe=2,data=2x2,tensor=2");
  CHECK(FindFlag(facts, "shard") == "states:data.1,gradients:data.1,weights:data.1");
  CHECK(FindFlag(facts, "gather") == "each_micro_batch");
  CHECK(FindFlag(facts, "reduce") == "each_micro_batch:data.0");
  facts.batch.micro_batches = 1;
  CHECK(FindFlag(facts, "reduce") == "");
  facts.sharding.gather = "once a step";
  facts.sharding.reduce = "once a step";
  CHECK(FindFlag(facts, "gather") == "once");
  CHECK(NotesText(facts).starts_with("gradients stay whole on each device until the step ends"));
  facts.sharding = {.reduce = "each micro-batch"};
  facts.batch.micro_batches = 4;
  CHECK(FindFlag(facts, "shard") == "none");
  CHECK(FindFlag(facts, "reduce") == "each_micro_batch");
}

TEST_CASE("weights over data and context") {
  Facts facts = FactsFor16();
  facts.degrees = {.tensor = 2, .context = 2, .data = 4};
  facts.schedule = {};
  facts.sharding = {.what = "weights", .over = {"data", "context"}, .ways = 8};
  CHECK(FindFlag(facts, "mesh") == "data=4,context=2,tensor=2");
  CHECK(FindFlag(facts, "shard") ==
        "states:data+context,gradients:data+context,weights:data+context");
}

TEST_CASE("experts are of data, or of tensor") {
  Facts facts = FactsFor16();
  facts.degrees.expert = 4;
  facts.degrees.expert_tensor = 2;
  CHECK(FindFlag(facts, "mesh") == "pipe=2,data=4,tensor=2");
  CHECK(FindFlag(facts, "experts") == "data");
  facts.degrees.expert = 2;
  CHECK(FindFlag(facts, "mesh") == "pipe=2,data=2x2,tensor=2");
  CHECK(FindFlag(facts, "experts") == "data.1");
  facts.degrees.expert_tensor = 1;
  CHECK(FindFlag(facts, "experts") == "tensor");
  facts.degrees.expert = 16;
  facts.degrees.expert_tensor = 2;
  CHECK(FindFlag(facts, "experts") == "data");
  CHECK(NotesText(facts).starts_with("experts are split in 4 over data, not in 16"));
}

TEST_CASE("recompute, with gathers where a sequence is split over tensor") {
  Facts facts = FactsFor16();
  facts.recompute = {.what = "core of attention", .here = "attention"};
  CHECK(FindFlag(facts, "recompute") == "attention");
  facts.recompute.gathers_again = true;
  CHECK(FindFlag(facts, "recompute") == "attention");
  facts.sequence_parallel = true;
  CHECK(FindFlag(facts, "sequence_parallel") == "true");
  CHECK(FindFlag(facts, "recompute") == "attention,gather");
  facts.recompute = {.what = "mlp", .here = "full", .is_exact = false};
  CHECK(FindFlag(facts, "recompute") == "full");
  CHECK(NotesText(facts) == "recompute of mlp, here full");
  facts.degrees.tensor = 1;
  CHECK(FindFlag(facts, "sequence_parallel") == "");
  facts.recompute = {.gathers_again = true};
  CHECK(FindFlag(facts, "recompute") == "");
  facts.degrees.context = 2;
  CHECK(FindFlag(facts, "recompute") == "none,gather");
}

TEST_CASE("what rests on the host") {
  Facts facts = FactsFor16();
  facts.offload = {.states = true, .weights = true};
  CHECK(FindFlag(facts, "offload") == "states,weights");
  facts.offload.update = true;
  CHECK(FindFlag(facts, "update_on") == "host");
  CHECK(FindFlag(facts, "offload") == "weights");
  facts.offload = {.activations = true, .activations_share = 0.5};
  CHECK(FindFlag(facts, "offload") == "activations:0.5");
  facts.offload.activations_share = 1;
  CHECK(FindFlag(facts, "offload") == "activations");
}

TEST_CASE("documents, the residual stream and weights gathered ahead") {
  Facts facts = FactsFor16();
  facts.separate_documents = facts.precision.residual_f32 = true;
  CHECK(FindFlag(facts, "documents") == "true");
  CHECK(FindFlag(facts, "residual") == "f32");
  facts.sharding = {.what = "weights", .over = {"data"}, .ways = 4, .prefetch_elements = 260};
  CHECK(FindFlag(facts, "prefetch") == "");  // the model is not known
  proto::Model model;
  model.set_layers(2);
  model.set_hidden(4);
  model.set_vocab(25);
  model.set_tied(false);
  facts.model.model = model;
  facts.model.parameters = 2 * 100 + 2 * 4 * 25;
  CHECK(FindFlag(facts, "prefetch") == "3");
  facts.sharding.prefetch_elements = 1'000'000;
  CHECK(FindFlag(facts, "prefetch") == "8");
}

TEST_CASE("numbers of the optimizer") {
  Facts facts = FactsFor16();
  facts.optimizer = {.learning_rate = 3e-4,
                     .beta2 = 0.95,
                     .clip = 0,
                     .schedule = "cosine",
                     .warmup_steps = 5,
                     .decay_steps = 50};
  const proto::Optimizer optimizer = MakeForeignRecipe(facts)->optimizer;
  CHECK(FlagsText(OptimizerRows(), optimizer) ==
        "--learning_rate=0.0003 --lr_schedule=cosine --warmup_steps=5 --decay_steps=50 "
        "--beta2=0.95 --clip=0");
  facts.optimizer.schedule = "WSD";
  CHECK(NotesText(facts) ==
        "the learning rate decays by WSD, here it is constant: no bytes and no "
        "time");
}

TEST_CASE("each choice names the settings that it is made of") {
  Facts facts = FactsFor16();
  facts.sharding = {.what = "states", .over = {"data"}, .ways = 4};
  const absl::StatusOr<ForeignRecipe> made = MakeForeignRecipe(facts);
  REQUIRE(made.ok());
  for (const Choice& choice : made->choices) {
    if (choice.field != "shard") continue;
    CHECK(choice.text == "states:data");
    CHECK(choice.settings == std::vector<std::string>{"use_distributed_optimizer"});
    return;
  }
  FAIL("no choice of shard");
}

}  // namespace
}  // namespace oneflow::foreign
