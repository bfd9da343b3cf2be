// Megatron-LM: run.sh, which starts pretrain_gpt.py with torchrun.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/megatron_facts.h"
#include "tools/foreign/emit/text.h"
#include "tools/foreign/emit/writers.h"

namespace oneflow::foreign {
namespace {

// Flags with their values, in the order in which they are added.
class MegatronFlags {
 public:
  template <typename... Values>
  void Add(const std::string& name, const Values&... values) {
    words_.push_back("--" + name);
    (words_.push_back(absl::StrCat(values)), ...);
  }
  template <typename... Values>
  void AddIf(bool condition, const std::string& name, const Values&... values) {
    if (condition) Add(name, values...);
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::string> words_;
};

void AddMixture(const proto::Model& model, const MegatronFacts& facts, MegatronFlags* flags) {
  if (model.experts() == 0) return;
  flags->Add("num-experts", model.experts());
  flags->Add("moe-ffn-hidden-size", model.inner());
  flags->Add("moe-router-topk", model.experts_per_token());
  flags->Add("moe-router-load-balancing-type", facts.balance);
  flags->AddIf(model.aux_loss_coeff() > 0, "moe-aux-loss-coeff", ExactText(model.aux_loss_coeff()));
  flags->AddIf(model.z_loss_coeff() > 0, "moe-z-loss-coeff", ExactText(model.z_loss_coeff()));
  flags->AddIf(facts.pre_softmax, "moe-router-pre-softmax");
  flags->AddIf(model.scores() == "sigmoid", "moe-router-score-function", "sigmoid");
  if (model.bias_rate() > 0) {
    flags->Add("moe-router-enable-expert-bias");
    flags->Add("moe-router-bias-update-rate", ExactText(model.bias_rate()));
  }
  flags->AddIf(model.shared_inner() > 0, "moe-shared-expert-intermediate-size",
               model.shared_inner());
  flags->AddIf(model.slots() > 0, "moe-expert-capacity-factor", ExactText(model.slots()));
  flags->AddIf(model.slots() > 0, "moe-token-drop-policy", "position");
  flags->Add("moe-token-dispatcher-type", "alltoall");
  flags->Add("moe-router-dtype", "fp32");
  flags->Add("moe-grouped-gemm");
}

void AddLlama(const proto::Model& model, const MegatronFacts& facts, MegatronFlags* flags) {
  flags->Add("ffn-hidden-size", model.inner());
  flags->Add("num-attention-heads", model.heads());
  flags->Add("group-query-attention");
  flags->Add("num-query-groups", model.groups());
  flags->Add("kv-channels", model.head_dim());
  flags->Add("position-embedding-type", "rope");
  flags->Add("rotary-base", static_cast<int64_t>(model.theta()));
  flags->Add("rotary-percent", "1.0");
  if (model.rope_scaling().factor() > 0) {
    flags->Add("use-rope-scaling");
    flags->Add("rope-scaling-factor", ExactText(model.rope_scaling().factor()));
  }
  flags->AddIf(model.window() > 0, "window-size", absl::StrCat(model.window() - 1, ",0"));
  flags->Add("normalization", "RMSNorm");
  flags->Add("norm-epsilon", ExactText(model.norm_epsilon()));
  flags->Add("swiglu");
  flags->Add("disable-bias-linear");
  flags->AddIf(model.qkv_bias(), "add-qkv-bias");
  flags->AddIf(model.qk_norm(), "qk-layernorm");
  flags->Add("hidden-dropout", "0.0");
  flags->Add("attention-dropout", "0.0");
  AddMixture(model, facts, flags);
}

void AddGpt(const proto::Model& model, MegatronFlags* flags) {
  const bool unfused = model.attention() == "unfused";
  flags->Add("ffn-hidden-size", 4 * model.hidden());
  flags->Add("num-attention-heads", model.heads());
  flags->Add("position-embedding-type", "learned_absolute");
  flags->Add("normalization", "LayerNorm");
  flags->Add("norm-epsilon", ExactText(model.norm_epsilon()));
  flags->AddIf(!model.bias(), "disable-bias-linear");
  flags->Add("hidden-dropout", ExactText(model.dropout()));
  flags->Add("attention-dropout", ExactText(unfused ? model.dropout() : 0));
  flags->AddIf(unfused, "attention-backend", "unfused");
}

MegatronFlags ModelFlags(const Job& job, const MegatronFacts& facts) {
  const proto::Model& model = job.model;
  MegatronFlags flags;
  flags.Add("num-layers", model.layers());
  flags.Add("hidden-size", model.hidden());
  flags.Add("seq-length", model.sequence());
  flags.Add("max-position-embeddings", model.sequence());
  if (model.family() == "gpt") {
    AddGpt(model, &flags);
  } else {
    AddLlama(model, facts, &flags);
  }
  flags.AddIf(!model.tied(), "untie-embeddings-and-output-weights");
  return flags;
}

void AddPipeline(const MegatronFacts& facts, MegatronFlags* flags) {
  flags->Add("pipeline-model-parallel-size", facts.degrees.pipe);
  if (facts.degrees.pipe == 1) return;
  if (!facts.layout.empty()) {
    flags->Add("pipeline-model-parallel-layout", facts.layout);
    return;
  }
  flags->AddIf(facts.chunks > 1, "num-virtual-stages-per-pipeline-rank", facts.chunks);
  if (facts.ends.equal) return;
  flags->Add("decoder-first-pipeline-num-layers", facts.ends.first);
  flags->Add("decoder-last-pipeline-num-layers", facts.ends.last);
}

void AddSharding(const proto::Recipe& recipe, const MegatronFacts& facts, MegatronFlags* flags) {
  flags->AddIf(facts.optimizer(), "use-distributed-optimizer");
  flags->AddIf(facts.copies > 1, "num-distributed-optimizer-instances", facts.copies);
  if (facts.fsdp()) {
    flags->Add("use-megatron-fsdp");
    flags->Add("data-parallel-sharding-strategy", facts.strategy());
    flags->Add("ckpt-format", "fsdp_dtensor");
    flags->Add("no-gradient-accumulation-fusion");
  }
  flags->AddIf(recipe.overlap(), "overlap-grad-reduce");
  flags->AddIf(recipe.overlap() && facts.optimizer(), "overlap-param-gather");
  flags->AddIf(facts.bucket_elements > 0, "ddp-bucket-size", facts.bucket_elements);
  if (!facts.host) return;
  flags->Add("use-precision-aware-optimizer");
  flags->Add("optimizer-cpu-offload");
  flags->Add("optimizer-offload-fraction", "1.0");
}

MegatronFlags PlanFlags(const Job& job, const MegatronFacts& facts) {
  const proto::Recipe& recipe = job.recipe;
  MegatronFlags flags;
  flags.Add("tensor-model-parallel-size", facts.degrees.tensor);
  flags.AddIf(facts.degrees.tensor > 1 && recipe.sequence_parallel(), "sequence-parallel");
  AddPipeline(facts, &flags);
  flags.Add("context-parallel-size", facts.degrees.context);
  flags.AddIf(facts.degrees.context > 1, "cp-comm-type", "all_gather");
  flags.AddIf(job.model.experts() > 0, "expert-model-parallel-size", facts.degrees.expert);
  flags.AddIf(facts.degrees.pipe_within_data, "use-tp-pp-dp-mapping");
  AddSharding(recipe, facts, &flags);
  if (!facts.granularity.empty()) {
    flags.Add("recompute-granularity", facts.granularity);
    flags.AddIf(!facts.modules.empty(), "recompute-modules", "core_attn");
    if (!facts.method.empty()) {
      flags.Add("recompute-method", facts.method);
      flags.Add("recompute-num-layers", facts.recompute_layers);
    }
  }
  flags.AddIf(facts.offloaded_blocks > 0, "cpu-offloading-num-layers", facts.offloaded_blocks);
  const bool bf16 = recipe.precision() == proto::BF16;
  flags.AddIf(bf16, "bf16");
  flags.AddIf(bf16 && recipe.residual() == proto::F32, "fp32-residual-connection");
  if (!recipe.fuse()) {
    for (const char* fusion : {"bias-gelu", "bias-swiglu", "bias-dropout", "rope"}) {
      flags.Add(absl::StrCat("no-", fusion, "-fusion"));
    }
  }
  return flags;
}

MegatronFlags TrainingFlags(const Job& job, const MegatronFacts& facts) {
  const proto::Optimizer& optimizer = job.optimizer;
  MegatronFlags flags;
  flags.Add("micro-batch-size", facts.micro_batch);
  flags.Add("global-batch-size", job.recipe.batch());
  flags.Add("train-iters", job.run.steps());
  flags.Add("optimizer", "adam");
  flags.Add("lr", ExactText(optimizer.learning_rate()));
  flags.Add("min-lr", ExactText(optimizer.min_learning_rate()));
  flags.Add("lr-decay-style", facts.decay);
  flags.Add("lr-warmup-iters", optimizer.warmup_steps());
  flags.AddIf(optimizer.decay_steps() > 0, "lr-decay-iters", optimizer.decay_steps());
  flags.Add("adam-beta1", ExactText(optimizer.beta1()));
  flags.Add("adam-beta2", ExactText(optimizer.beta2()));
  flags.Add("adam-eps", ExactText(optimizer.epsilon()));
  flags.Add("weight-decay", ExactText(optimizer.weight_decay()));
  flags.Add("clip-grad", ExactText(optimizer.clip()));
  flags.Add("seed", job.run.seed());
  return flags;
}

MegatronFlags DataFlags(const Job& job) {
  MegatronFlags flags;
  flags.Add("mock-data");
  flags.Add("tokenizer-type", "NullTokenizer");
  flags.Add("vocab-size", job.model.vocab());
  flags.Add("make-vocab-size-divisible-by", 1);
  flags.Add("split", "99,1,0");
  if (job.recipe.documents()) {
    flags.Add("reset-position-ids");
    flags.Add("reset-attention-mask");
    flags.Add("eod-mask-loss");
  }
  flags.Add("eval-iters", 8);
  flags.Add("eval-interval", 1000);
  flags.Add("log-interval", 1);
  return flags;
}

}  // namespace

std::vector<EmittedFile> WriteMegatron(const Job& job) {
  const MegatronFacts facts = FindMegatronFacts(job);
  std::string text =
      absl::StrCat("#!/bin/bash\n# ", DescribeJob(job, facts.degrees), ".\n",
                   "# Run it in a checkout of Megatron-LM, on each node with its NODE_RANK.\n");
  if (!facts.fsdp()) absl::StrAppend(&text, "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
  absl::StrAppend(&text, "\nNODES=", facts.nodes.nodes, "\nGPUS_PER_NODE=", facts.nodes.each,
                  "\nNODE_RANK=${NODE_RANK:-0}\nMASTER_ADDR=${MASTER_ADDR:-localhost}\n"
                  "MASTER_PORT=${MASTER_PORT:-29500}\n\n",
                  ShellArray("MODEL", ModelFlags(job, facts).words()), "\n",
                  ShellArray("PLAN", PlanFlags(job, facts).words()), "\n",
                  ShellArray("TRAINING", TrainingFlags(job, facts).words()),
                  "\n# Random tokens: for others write --data-path, and the tokenizer's flags.\n",
                  ShellArray("DATA", DataFlags(job).words()),
                  "\ntorchrun --nnodes $NODES --nproc_per_node $GPUS_PER_NODE --node_rank "
                  "$NODE_RANK \\\n  --master_addr $MASTER_ADDR --master_port $MASTER_PORT "
                  "pretrain_gpt.py \\\n  \"${MODEL[@]}\" \"${PLAN[@]}\" \"${TRAINING[@]}\" "
                  "\"${DATA[@]}\"\n");
  return {{"run.sh", text, /*executable=*/true}};
}

}  // namespace oneflow::foreign
