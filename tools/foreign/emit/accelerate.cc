// accelerate under the Trainer of Hugging Face: accelerate.yaml, with FSDP2 or plain data
// parallelism; accelerate_fsdp1.yaml, the same in FSDP1 where that has it; model/config.json;
// run.sh.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/foreign/emit/degrees.h"
#include "tools/foreign/emit/text.h"
#include "tools/foreign/emit/writers.h"

namespace oneflow::foreign {
namespace {

struct FsdpFacts {
  AxisDegrees degrees;
  Nodes nodes;
  bool splits = false;  // FSDP; else plain data parallelism
  bool kept = false;    // weights are kept from the forward to the backward
  bool host = false;    // weights, gradients and states rest there
  bool recomputes = false;
  std::string block;
};

std::string YamlWord(bool value) { return value ? "true" : "false"; }

std::string CommonYaml(const Job& job, const FsdpFacts& facts) {
  const bool bf16 = job.recipe.precision() == proto::BF16;
  return absl::StrCat("# ", DescribeJob(job, facts.degrees),
                      ".\ncompute_environment: LOCAL_MACHINE\ndistributed_type: ",
                      facts.splits             ? "FSDP"
                      : facts.degrees.data > 1 ? "MULTI_GPU"
                                               : "'NO'",
                      "\nmixed_precision: ", bf16 ? "bf16" : "'no'",
                      "\nnum_machines: ", facts.nodes.nodes,
                      "\nnum_processes: ", facts.degrees.devices(),
                      "\nmachine_rank: 0\nmain_training_function: main\nrdzv_backend: static\n"
                      "same_network: true\nuse_cpu: false\n");
}

std::string WrapText(const FsdpFacts& facts) {
  return absl::StrCat(
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_transformer_layer_cls_to_wrap: ",
      facts.block, "\n  fsdp_offload_params: ", YamlWord(facts.host),
      "\n  fsdp_activation_checkpointing: ", YamlWord(facts.recomputes),
      "\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "  fsdp_cpu_ram_efficient_loading: false\n");
}

std::string Fsdp2Yaml(const Job& job, const FsdpFacts& facts) {
  std::string text = absl::StrCat(CommonYaml(job, facts),
                                  "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: ",
                                  YamlWord(!facts.kept), "\n", WrapText(facts));
  const int64_t copies = facts.degrees.data / facts.degrees.shard;
  if (copies == 1) return text;
  return absl::StrCat(text, "parallelism_config:\n  parallelism_config_dp_replicate_size: ", copies,
                      "\n  parallelism_config_dp_shard_size: ", facts.degrees.shard, "\n");
}

// FSDP1 splits over all devices or over those of a node.
bool HasFsdp1(const FsdpFacts& facts) {
  const int64_t shard = facts.degrees.shard;
  return facts.splits && (shard == facts.degrees.data || shard == facts.nodes.each);
}

std::string Fsdp1Yaml(const Job& job, const FsdpFacts& facts) {
  const bool all = facts.degrees.shard == facts.degrees.data;
  const char* const strategy = all ? (facts.kept ? "SHARD_GRAD_OP" : "FULL_SHARD")
                                   : (facts.kept ? "HYBRID_SHARD_ZERO2" : "HYBRID_SHARD");
  return absl::StrCat(CommonYaml(job, facts),
                      "fsdp_config:\n  fsdp_version: 1\n  fsdp_sharding_strategy: ", strategy,
                      "\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_forward_prefetch: true\n"
                      "  fsdp_use_orig_params: true\n  fsdp_sync_module_states: true\n",
                      WrapText(facts));
}

FsdpFacts FindFsdpFacts(const Job& job) {
  FsdpFacts facts;
  facts.degrees = FindDegrees(job.recipe).value();
  facts.nodes = FindNodes(facts.degrees.devices(), job.devices_a_node);
  facts.splits = CountSplit(job.recipe) == 3;
  facts.kept = job.recipe.gather() != proto::EACH_USE;
  facts.host = job.recipe.offload().weights();
  facts.recomputes = !job.recipe.recompute().term().empty();
  facts.block = BlockClass(job);
  return facts;
}

}  // namespace

std::vector<EmittedFile> WriteAccelerate(const Job& job) {
  const FsdpFacts facts = FindFsdpFacts(job);
  std::vector<std::string> extra;
  // Else the Trainer reduces gradients at the last of the micro-batches, and holds the whole of
  // them until then.
  const bool each = job.recipe.reduce().axis_size() > 0;
  if (job.recipe.micro_batches() > 1 && (facts.splits || each)) {
    extra = {"--accelerator_config",
             R"({"gradient_accumulation_kwargs": {"sync_each_batch": true}})"};
  }
  if (facts.recomputes && !facts.splits) {
    extra.insert(extra.end(), {"--gradient_checkpointing", "true"});
  }
  std::vector<EmittedFile> files = {
      {"run.sh",
       absl::StrCat(
           "#!/bin/bash\n# ", DescribeJob(job, facts.degrees),
           ".\n# run_clm.py is the example of transformers (examples/pytorch/language-modeling). "
           "Run this on each node\n# with its NODE_RANK.\nTOKENIZER=${TOKENIZER:-gpt2}\n"
           "TRAIN_FILE=${TRAIN_FILE:-corpus.jsonl}\n\n",
           ShellArray("ARGUMENTS", TrainingArguments(job, facts.degrees, extra)),
           "\naccelerate launch --config_file accelerate.yaml --machine_rank ${NODE_RANK:-0} \\\n"
           "  --main_process_ip ${MASTER_ADDR:-localhost} --main_process_port "
           "${MASTER_PORT:-29500} \\\n  run_clm.py \"${ARGUMENTS[@]}\"\n"),
       /*executable=*/true},
      {"accelerate.yaml", facts.splits ? Fsdp2Yaml(job, facts) : CommonYaml(job, facts)}};
  if (HasFsdp1(facts)) files.push_back({"accelerate_fsdp1.yaml", Fsdp1Yaml(job, facts)});
  files.push_back(ModelConfigFile(job));
  return files;
}

}  // namespace oneflow::foreign
