// Megatron-Bridge: config.yaml, a ConfigContainer; pretrain.py, which reads it; and run.sh.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/megatron_facts.h"
#include "tools/foreign/emit/text.h"
#include "tools/foreign/emit/writers.h"

namespace oneflow::foreign {
namespace {

constexpr char kConfigModule[] = "megatron.bridge.training.config.";

std::string YamlBool(bool value) { return value ? "true" : "false"; }

// A section of the file: keys with values, two blanks deep.
class YamlSection {
 public:
  YamlSection(const std::string& name, const std::string& target)
      : text_(absl::StrCat("\n", name, ":\n  _target_: ", target, "\n")) {}
  template <typename Value>
  YamlSection& Add(const std::string& key, const Value& value) {
    absl::StrAppend(&text_, "  ", key, ": ", value, "\n");
    return *this;
  }
  YamlSection& AddBool(const std::string& key, bool value) { return Add(key, YamlBool(value)); }
  template <typename Value>
  YamlSection& AddIf(bool condition, const std::string& key, const Value& value) {
    return condition ? Add(key, value) : *this;
  }
  // A name of Python that is not called.
  YamlSection& AddName(const std::string& key, const std::string& name) {
    absl::StrAppend(&text_, "  ", key, ":\n    _target_: ", name, "\n    _call_: false\n");
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddExperts(const proto::Model& model, const MegatronFacts& facts, YamlSection* yaml) {
  if (model.experts() == 0) return;
  yaml->Add("num_moe_experts", model.experts());
  yaml->Add("moe_ffn_hidden_size", model.inner());
  yaml->Add("moe_router_topk", model.experts_per_token());
  yaml->Add("moe_router_load_balancing_type", facts.balance);
  yaml->Add("moe_aux_loss_coeff", FloatText(model.aux_loss_coeff()));
  yaml->AddIf(model.z_loss_coeff() > 0, "moe_z_loss_coeff", FloatText(model.z_loss_coeff()));
  yaml->AddBool("moe_router_pre_softmax", facts.pre_softmax);
  yaml->AddIf(model.scores() == "sigmoid", "moe_router_score_function", "sigmoid");
  if (model.bias_rate() > 0) {
    yaml->AddBool("moe_router_enable_expert_bias", true);
    yaml->Add("moe_router_bias_update_rate", FloatText(model.bias_rate()));
  }
  yaml->AddIf(model.shared_inner() > 0, "moe_shared_expert_intermediate_size",
              model.shared_inner());
  if (model.slots() > 0) {
    yaml->Add("moe_expert_capacity_factor", FloatText(model.slots()));
    yaml->Add("moe_token_drop_policy", "position");
  }
  yaml->Add("moe_token_dispatcher_type", "alltoall");
  yaml->Add("moe_router_dtype", "fp32");
  yaml->AddBool("moe_grouped_gemm", true);
}

void AddBlocks(const Job& job, const MegatronFacts& facts, YamlSection* yaml) {
  const proto::Model& model = job.model;
  const bool gpt = model.family() == "gpt";
  yaml->Add("num_layers", model.layers());
  yaml->Add("hidden_size", model.hidden());
  yaml->Add("ffn_hidden_size", gpt ? 4 * model.hidden() : model.inner());
  yaml->Add("num_attention_heads", model.heads());
  yaml->Add("num_query_groups", gpt ? model.heads() : model.groups());
  yaml->Add("kv_channels", gpt ? model.hidden() / model.heads() : model.head_dim());
  yaml->Add("normalization", gpt ? "LayerNorm" : "RMSNorm");
  yaml->Add("layernorm_epsilon", FloatText(model.norm_epsilon()));
  yaml->AddBool("gated_linear_unit", !gpt);
  yaml->AddName("activation_func", gpt ? "torch.nn.functional.gelu" : "torch.nn.functional.silu");
  yaml->AddBool("add_bias_linear", gpt && model.bias());
  yaml->AddBool("add_qkv_bias", gpt ? model.bias() : model.qkv_bias());
  yaml->AddBool("qk_layernorm", model.qk_norm());
  const bool unfused = gpt && model.attention() == "unfused";
  yaml->Add("hidden_dropout", FloatText(model.dropout()));
  yaml->Add("attention_dropout", FloatText(unfused ? model.dropout() : 0));
  yaml->Add("position_embedding_type", gpt ? "learned_absolute" : "rope");
  if (!gpt) {
    yaml->Add("rotary_base", static_cast<int64_t>(model.theta()));
    yaml->Add("rotary_percent", "1.0");
    const double factor = model.rope_scaling().factor();
    yaml->AddBool("rope_scaling", factor > 0);
    yaml->AddIf(factor > 0, "rope_scaling_factor", FloatText(factor));
    yaml->AddIf(model.window() > 0, "window_size", absl::StrCat("[", model.window() - 1, ", 0]"));
  }
  yaml->AddBool("share_embeddings_and_output_weights", model.tied());
  AddExperts(model, facts, yaml);
}

std::string ModelText(const Job& job, const MegatronFacts& facts) {
  const proto::Recipe& recipe = job.recipe;
  const AxisDegrees& degrees = facts.degrees;
  YamlSection yaml("model", "megatron.bridge.models.gpt_provider.GPTModelProvider");
  AddBlocks(job, facts, &yaml);
  yaml.Add("seq_length", job.model.sequence());
  yaml.Add("vocab_size", job.model.vocab());
  yaml.AddBool("should_pad_vocab", true);
  yaml.Add("make_vocab_size_divisible_by", 1);
  yaml.Add("tensor_model_parallel_size", degrees.tensor);
  yaml.AddBool("sequence_parallel", degrees.tensor > 1 && recipe.sequence_parallel());
  yaml.Add("pipeline_model_parallel_size", degrees.pipe);
  if (!facts.layout.empty()) {
    yaml.Add("pipeline_model_parallel_layout", "\"" + facts.layout + "\"");
  } else if (degrees.pipe > 1 && !facts.ends.equal) {
    yaml.Add("num_layers_in_first_pipeline_stage", facts.ends.first);
    yaml.Add("num_layers_in_last_pipeline_stage", facts.ends.last);
  }
  yaml.AddIf(facts.chunks > 1, "virtual_pipeline_model_parallel_size", facts.chunks);
  yaml.Add("context_parallel_size", degrees.context);
  yaml.AddIf(degrees.context > 1, "cp_comm_type", "all_gather");
  yaml.Add("expert_model_parallel_size", degrees.expert);
  if (!facts.granularity.empty()) {
    yaml.Add("recompute_granularity", facts.granularity);
    yaml.AddIf(!facts.modules.empty(), "recompute_modules", QuotedList(facts.modules));
    if (!facts.method.empty()) {
      yaml.Add("recompute_method", facts.method);
      yaml.Add("recompute_num_layers", facts.recompute_layers);
    }
  }
  if (facts.offloaded_blocks > 0) {
    yaml.AddBool("cpu_offloading", true);
    yaml.Add("cpu_offloading_num_layers", facts.offloaded_blocks);
  }
  const bool bf16 = recipe.precision() == proto::BF16;
  const char* const type = bf16 ? "torch.bfloat16" : "torch.float32";
  yaml.AddBool("bf16", bf16);
  yaml.AddName("params_dtype", type);
  yaml.AddName("pipeline_dtype", type);
  yaml.AddBool("fp32_residual_connection", bf16 && recipe.residual() == proto::F32);
  for (const char* fusion :
       {"bias_activation_fusion", "bias_dropout_fusion", "apply_rope_fusion"}) {
    const bool rope = std::string_view(fusion) == "apply_rope_fusion";
    yaml.AddBool(fusion, recipe.fuse() && (!rope || job.model.family() != "gpt"));
  }
  if (facts.fsdp()) yaml.AddBool("gradient_accumulation_fusion", false);
  return yaml.text();
}

std::string OptimizerText(const Job& job, const MegatronFacts& facts) {
  const proto::Optimizer& optimizer = job.optimizer;
  YamlSection yaml("optimizer", absl::StrCat(kConfigModule, "OptimizerConfig"));
  yaml.Add("optimizer", "adam");
  yaml.Add("lr", FloatText(optimizer.learning_rate()));
  yaml.Add("min_lr", FloatText(optimizer.min_learning_rate()));
  yaml.Add("weight_decay", FloatText(optimizer.weight_decay()));
  yaml.Add("adam_beta1", FloatText(optimizer.beta1()));
  yaml.Add("adam_beta2", FloatText(optimizer.beta2()));
  yaml.Add("adam_eps", FloatText(optimizer.epsilon()));
  yaml.Add("clip_grad", FloatText(optimizer.clip()));
  yaml.AddBool("use_distributed_optimizer", facts.optimizer());
  if (facts.host) {
    yaml.AddBool("use_precision_aware_optimizer", true);
    yaml.AddBool("optimizer_cpu_offload", true);
    yaml.Add("optimizer_offload_fraction", "1.0");
  }
  YamlSection schedule("scheduler", absl::StrCat(kConfigModule, "SchedulerConfig"));
  schedule.Add("lr_decay_style", facts.decay);
  schedule.Add("lr_warmup_iters", optimizer.warmup_steps());
  schedule.AddIf(optimizer.decay_steps() > 0, "lr_decay_iters", optimizer.decay_steps());
  return yaml.text() + schedule.text();
}

std::string GradientsText(const Job& job, const MegatronFacts& facts) {
  YamlSection yaml("ddp", absl::StrCat(kConfigModule, "DistributedDataParallelConfig"));
  yaml.AddBool("use_distributed_optimizer", facts.optimizer());
  yaml.AddIf(facts.copies > 1, "num_distributed_optimizer_instances", facts.copies);
  yaml.AddBool("overlap_grad_reduce", job.recipe.overlap());
  yaml.AddBool("overlap_param_gather", job.recipe.overlap() && facts.optimizer());
  yaml.AddIf(facts.bucket_elements > 0, "bucket_size", facts.bucket_elements);
  yaml.AddBool("grad_reduce_in_fp32", true);
  if (facts.fsdp()) {
    yaml.AddBool("use_megatron_fsdp", true);
    yaml.Add("data_parallel_sharding_strategy", facts.strategy());
  }
  return yaml.text();
}

std::string DataText(const Job& job) {
  YamlSection yaml("dataset", absl::StrCat(kConfigModule, "MockGPTDatasetConfig"));
  yaml.Add("seq_length", job.model.sequence());
  yaml.Add("random_seed", job.run.seed());
  for (const char* key : {"reset_position_ids", "reset_attention_mask", "eod_mask_loss"}) {
    yaml.AddBool(key, job.recipe.documents());
  }
  yaml.Add("num_workers", 2);
  YamlSection tokenizer("tokenizer", absl::StrCat(kConfigModule, "TokenizerConfig"));
  tokenizer.Add("tokenizer_type", "NullTokenizer");
  tokenizer.Add("vocab_size", job.model.vocab());
  return yaml.text() + tokenizer.text();
}

std::string ConfigYaml(const Job& job, const MegatronFacts& facts) {
  YamlSection train("train", absl::StrCat(kConfigModule, "TrainingConfig"));
  train.Add("train_iters", job.run.steps());
  train.Add("global_batch_size", job.recipe.batch());
  train.Add("micro_batch_size", facts.micro_batch);
  YamlSection validation("validation", absl::StrCat(kConfigModule, "ValidationConfig"));
  validation.Add("eval_interval", 1000);
  validation.Add("eval_iters", 8);
  YamlSection checkpoint("checkpoint", absl::StrCat(kConfigModule, "CheckpointConfig"));
  checkpoint.Add("ckpt_format", facts.fsdp() ? "fsdp_dtensor" : "torch_dist");
  YamlSection logger("logger", absl::StrCat(kConfigModule, "LoggerConfig"));
  logger.Add("log_interval", 1);
  YamlSection rng("rng", absl::StrCat(kConfigModule, "RNGConfig"));
  rng.Add("seed", job.run.seed());
  YamlSection dist("dist", absl::StrCat(kConfigModule, "DistributedInitConfig"));
  dist.AddBool("use_tp_pp_dp_mapping", facts.degrees.pipe_within_data);
  const bool bf16 = job.recipe.precision() == proto::BF16;
  return absl::StrCat("# ", DescribeJob(job, facts.degrees), ".\n_target_: ", kConfigModule,
                      "ConfigContainer\n", ModelText(job, facts), train.text(), validation.text(),
                      OptimizerText(job, facts), GradientsText(job, facts),
                      "\nmixed_precision: ", bf16 ? "bf16_mixed" : "null", "\n", DataText(job),
                      checkpoint.text(), logger.text(), rng.text(), dist.text());
}

constexpr char kPretrain[] =
    R"(# Trains what a file says: python pretrain.py --config-file config.yaml
import argparse

from megatron.bridge.training.config import ConfigContainer
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain

parser = argparse.ArgumentParser()
parser.add_argument("--config-file", required=True)
pretrain(ConfigContainer.from_yaml(parser.parse_args().config_file), forward_step)
)";

}  // namespace

std::vector<EmittedFile> WriteBridge(const Job& job) {
  const MegatronFacts facts = FindMegatronFacts(job);
  std::string run = absl::StrCat(
      "#!/bin/bash\n# ", DescribeJob(job, facts.degrees),
      ".\n# Run it where Megatron-Bridge is installed, on each node with its NODE_RANK.\n");
  if (!facts.fsdp()) absl::StrAppend(&run, "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
  absl::StrAppend(&run, "torchrun --nnodes=", facts.nodes.nodes,
                  " --nproc-per-node=", facts.nodes.each,
                  " --node-rank=${NODE_RANK:-0} \\\n  --master-addr=${MASTER_ADDR:-localhost} "
                  "--master-port=${MASTER_PORT:-29500} \\\n  pretrain.py --config-file "
                  "config.yaml\n");
  return {{"run.sh", run, /*executable=*/true},
          {"config.yaml", ConfigYaml(job, facts)},
          {"pretrain.py", kPretrain}};
}

}  // namespace oneflow::foreign
