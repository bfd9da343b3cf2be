// A change is told in the settings that the user gave.
#include "tools/foreign/advise/changes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow::foreign {
namespace {

Job MakeJob(System system, const std::string& flags) {
  Job job{.name = "llama"};
  job.model = MakeModel(
      "family: 'llama' layers: 4 heads: 8 groups: 8 hidden: 512 head_dim: 64 inner: 1024 "
      "sequence: 128 vocab: 1024");
  job.recipe = WithDefaults(MakeRecipe("--device=cuda --precision=bf16 --batch=64 " + flags));
  SetDefaults(OptimizerRows(), &job.optimizer);
  const absl::StatusOr<std::vector<Rounded>> rounded = RoundFor(system, job);
  REQUIRE(rounded.ok());
  return rounded->front().job;
}

std::vector<std::string> ListTexts(System system, const std::string& own, const std::string& other,
                                   const std::vector<Setting>& users) {
  std::vector<std::string> texts;
  const auto changes = ListChanges(system, MakeJob(system, own), MakeJob(system, other), users);
  if (!changes) return {"no word"};
  for (const SettingChange& change : *changes) texts.push_back(change.Text());
  std::sort(texts.begin(), texts.end());
  return texts;
}

Setting Given(const std::string& name, const std::string& key, const nlohmann::json& value) {
  return {.name = name, .key = key, .value = value};
}

using Texts = std::vector<std::string>;

TEST_CASE("a flag of Megatron-LM that was given changes, one that was not is added") {
  const std::string own = "--mesh=data=8 --shard=states --micro_batches=4";
  const std::string other = "--mesh=data=4,tensor=2 --shard=states --micro_batches=4";
  const std::vector<Setting> users = {
      Given("--micro-batch-size", "micro_batch_size", "2"),
      Given("--use-distributed-optimizer", "use_distributed_optimizer", true)};
  CHECK(ListTexts(System::kMegatron, own, other, users) ==
        Texts{"--micro-batch-size 2 -> 4", "add --tensor-model-parallel-size 2"});
}

TEST_CASE("what was not given is not left out, and what is so already is no change") {
  const std::string own = "--mesh=data=8 --shard=states --micro_batches=4";
  const std::string other = "--mesh=data=8 --shard=none --micro_batches=4";
  CHECK(ListTexts(System::kMegatron, own, other, {Given("--bf16", "bf16", true)}).empty());
  const std::vector<Setting> users = {
      Given("--use-distributed-optimizer", "use_distributed_optimizer", true)};
  CHECK(ListTexts(System::kMegatron, own, other, users) ==
        Texts{"leave out --use-distributed-optimizer true"});
}

TEST_CASE("a number that is auto in DeepSpeed's file follows from the word of the Trainer") {
  const std::string own = "--mesh=data=8 --shard=states --micro_batches=4";
  const std::string other = "--mesh=data=8 --shard=states --micro_batches=8";
  const std::vector<Setting> users = {
      Given("gradient_accumulation_steps", "gradient_accumulation_steps", "auto"),
      Given("train_micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu", "auto"),
      Given("--gradient_accumulation_steps", "gradient_accumulation_steps", "4"),
      Given("--per_device_train_batch_size", "per_device_train_batch_size", "2")};
  CHECK(ListTexts(System::kDeepSpeed, own, other, users) ==
        Texts{"--gradient_accumulation_steps 4 -> 8", "--per_device_train_batch_size 2 -> 1"});
}

TEST_CASE("a file of --yaml-cfg has its own keys, and no flags beside it") {
  const std::string own = "--mesh=data=8 --shard=states --micro_batches=4";
  const std::vector<Setting> users = {
      Given("--yaml-cfg", "yaml_cfg", "a.yaml"), Given("micro_batch_size", "micro_batch_size", 2),
      Given("use_distributed_optimizer", "use_distributed_optimizer", true)};
  CHECK(ListTexts(System::kMegatron, own, "--mesh=data=8 --micro_batches=8", users) ==
        Texts{"micro_batch_size=2 -> 1", "use_distributed_optimizer=true -> false"});
  CHECK(ListTexts(System::kMegatron, own, "--mesh=data=4,tensor=2 --shard=states --micro_batches=4",
                  users) == Texts{"no word"});
}

TEST_CASE("a flag of the same meaning is left out") {
  const std::vector<Setting> users = {Given("--num-layers-per-virtual-pipeline-stage",
                                            "num_layers_per_virtual_pipeline_stage", "1")};
  CHECK(ListTexts(System::kMegatron,
                  "--mesh=pipe=2,data=4 --micro_batches=4 --schedule=interleaved --chunks=2 "
                  "--stage_layers=1,1,1,1",
                  "--mesh=pipe=2,data=4 --micro_batches=4 --stage_layers=2,2",
                  users) == Texts{"leave out --num-layers-per-virtual-pipeline-stage 1"});
}

}  // namespace
}  // namespace oneflow::foreign
