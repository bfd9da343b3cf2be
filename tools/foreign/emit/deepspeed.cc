// DeepSpeed under the Trainer of Hugging Face: ds_config.json, model/config.json and run.sh.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/text.h"
#include "tools/foreign/emit/writers.h"

namespace oneflow::foreign {
namespace {

constexpr int64_t kUsualBucketBytes = 25'000'000;  // of the row bucket_bytes
constexpr int64_t kElementBytes = 4;               // gradients are reduced in f32

nlohmann::ordered_json ZeroJson(const Job& job) {
  const proto::Recipe& recipe = job.recipe;
  const int stage = CountSplit(recipe);
  const bool host = recipe.update_on() == proto::UPDATE_ON_HOST;
  // States rest on the host with a stage of 1 or more only.
  nlohmann::ordered_json zero = {{"stage", host ? std::max(stage, 1) : stage},
                                 {"overlap_comm", recipe.overlap()},
                                 {"contiguous_gradients", true}};
  if (recipe.overlap() && recipe.bucket_bytes() != kUsualBucketBytes) {
    zero["reduce_bucket_size"] = std::max<int64_t>(recipe.bucket_bytes() / kElementBytes, 1);
  }
  if (stage == 3) {
    zero["stage3_prefetch_bucket_size"] =
        recipe.overlap() ? recipe.prefetch() * job.block_parameters : 0;
    zero["stage3_gather_16bit_weights_on_model_save"] = true;
  }
  if (host) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  if (recipe.offload().weights()) zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  return zero;
}

nlohmann::ordered_json DeepSpeedJson(const Job& job, const AxisDegrees& degrees) {
  const proto::Recipe& recipe = job.recipe;
  const proto::Optimizer& optimizer = job.optimizer;
  return {{"train_batch_size", recipe.batch()},
          {"train_micro_batch_size_per_gpu", FindMicroBatch(recipe, degrees).value()},
          {"gradient_accumulation_steps", recipe.micro_batches()},
          {"gradient_clipping", optimizer.clip()},
          {"bf16", {{"enabled", recipe.precision() == proto::BF16}}},
          {"data_types", {{"grad_accum_dtype", "fp32"}}},
          {"optimizer",
           {{"type", "AdamW"},
            {"params",
             {{"lr", optimizer.learning_rate()},
              {"betas", {optimizer.beta1(), optimizer.beta2()}},
              {"eps", optimizer.epsilon()},
              {"weight_decay", optimizer.weight_decay()}}}}},
          {"zero_optimization", ZeroJson(job)},
          {"zero_allow_untested_optimizer", true},
          {"steps_per_print", 100}};
}

}  // namespace

std::vector<EmittedFile> WriteDeepSpeed(const Job& job) {
  const AxisDegrees degrees = FindDegrees(job.recipe).value();
  const Nodes nodes = FindNodes(degrees.devices(), job.devices_a_node);
  const bool recomputes = !job.recipe.recompute().term().empty();
  std::vector<std::string> extra = {"--deepspeed", "ds_config.json"};
  if (recomputes) extra.insert(extra.end(), {"--gradient_checkpointing", "true"});
  const std::string run = absl::StrCat(
      "#!/bin/bash\n# ", DescribeJob(job, degrees),
      ".\n# run_clm.py is the example of transformers (examples/pytorch/language-modeling).\n"
      "TOKENIZER=${TOKENIZER:-gpt2}\nTRAIN_FILE=${TRAIN_FILE:-corpus.jsonl}\n\n",
      ShellArray("ARGUMENTS", TrainingArguments(job, degrees, extra)), "\ndeepspeed --num_nodes ",
      nodes.nodes, " --num_gpus ", nodes.each,
      nodes.nodes > 1 ? " --hostfile ${HOSTFILE:-hostfile}" : "", " run_clm.py \\\n  ",
      "\"${ARGUMENTS[@]}\"\n");
  return {{"run.sh", run, /*executable=*/true},
          {"ds_config.json", DeepSpeedJson(job, degrees).dump(2) + "\n"},
          ModelConfigFile(job)};
}

}  // namespace oneflow::foreign
