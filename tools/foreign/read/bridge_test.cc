#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/foreign/read/bridge_parts.h"
#include "tools/foreign/read/read_for_test.h"

namespace oneflow::foreign {
namespace {

using Counts = std::vector<int64_t>;

absl::StatusOr<Facts> TryRead(const std::string& text, const std::string& command,
                              const ForeignInput& input = {}) {
  return ReadBy(BridgeReader(), "config.yaml", text, command, input);
}

Facts Read(const std::string& text, const std::string& command, const ForeignInput& input = {}) {
  const absl::StatusOr<Facts> facts = TryRead(text, command, input);
  INFO(facts.status());
  REQUIRE(facts.ok());
  return *facts;
}

const Setting& Find(const Facts& facts, const std::string& name) {
  for (const Setting& setting : facts.settings) {
    if (setting.name == name) return setting;
  }
  FAIL("no setting " << name);
  return facts.settings.front();
}

constexpr const char* kBridge = R"(
_target_: megatron.bridge.training.config.ConfigContainer
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  normalization: RMSNorm
  gated_linear_unit: true
  activation_func:
    _target_: torch.nn.functional.silu
    _call_: false
  add_bias_linear: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  position_embedding_type: rope
  rotary_base: 500000
  share_embeddings_and_output_weights: false
  seq_length: 8192
  vocab_size: 128256
  should_pad_vocab: true
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 4
  context_parallel_size: 1
  sequence_parallel: true
  bf16: true
  params_dtype:
    _target_: torch.bfloat16
    _call_: false
train:
  train_iters: 1000
  global_batch_size: 64
  micro_batch_size: 1
  manual_gc: true
optimizer:
  optimizer: adam
  lr: 0.0003
  adam_beta2: 0.95
  bf16: true
  use_distributed_optimizer: false
scheduler:
  lr_decay_style: cosine
  lr_warmup_iters: 100
ddp:
  use_distributed_optimizer: true
mixed_precision: bf16_mixed
dataset:
  seq_length: 8192
  num_workers: 8
profiling:
  use_nsys_profiler: false
)";

TEST_CASE("a ConfigContainer, and words that beat it") {
  const Facts facts = Read(kBridge,
                           "torchrun --nnodes=2 --nproc-per-node=8 pretrain.py --config-file "
                           "config.yaml train.global_batch_size=128 model.context_parallel_size=2 "
                           "+model.recompute_granularity=selective "
                           "model.recompute_modules=[core_attn] ~scheduler.lr_warmup_iters");
  CHECK(facts.system == "megatron-bridge");
  CHECK(facts.devices == 16);
  CHECK(facts.degrees.data == 1);
  CHECK(facts.batch.global == 128);
  CHECK(facts.batch.micro_batches == 128);
  CHECK(facts.schedule.stage_layers == Counts{8, 8, 8, 8});
  CHECK(facts.sharding.what == "states");
  CHECK(facts.sharding.ways == 2);
  CHECK(facts.recompute.here == "attention");
  CHECK(facts.precision.here == "bf16");
  CHECK(facts.optimizer.schedule == "cosine");
  CHECK(facts.optimizer.warmup_steps == 0);
  CHECK(facts.optimizer.decay_steps == 1000);
  CHECK(facts.optimizer.weight_decay == 0.01);
  CHECK(facts.model.vocab_rule == "should_pad_vocab: up to a multiple of 128 x tensor = 256");
  CHECK(Find(facts, "train.global_batch_size").overrides.starts_with("64"));
  CHECK(FindList(facts, "--config-file") == "taken");
  CHECK(FindList(facts, "train.manual_gc") == "has no effect on a plan");
  CHECK(FindList(facts, "profiling.use_nsys_profiler") == "has no effect on a plan");
  // Places that Megatron has one key for: none is lost.
  CHECK(FindList(facts, "optimizer.bf16") == "taken");
  CHECK(FindList(facts, "dataset.seq_length") == "taken");
  CHECK(FindList(facts, "ddp.use_distributed_optimizer") == "taken");
  CHECK(Find(facts, "optimizer.use_distributed_optimizer").note ==
        "ddp.use_distributed_optimizer=true decides");
  CHECK(facts.broken.empty());
}

TEST_CASE("uneven stages, recompute of blocks, FP8 by a preset") {
  const Facts facts = Read(kBridge,
                           "torchrun --nnodes=4 --nproc-per-node=8 pretrain.py "
                           "model.num_layers_in_first_pipeline_stage=7 "
                           "model.num_layers_in_last_pipeline_stage=7 "
                           "model.recompute_granularity=full model.recompute_method=block "
                           "model.recompute_num_layers=3 "
                           "mixed_precision=bf16_with_fp8_current_scaling_mixed");
  CHECK(facts.schedule.stage_layers == Counts{7, 9, 9, 7});
  CHECK(facts.recompute.here == "full:3");
  CHECK(facts.precision.compute.starts_with("fp8 (hybrid, tensorwise scaling)"));
  CHECK(facts.precision.here == "bf16");
  CHECK(FindList(facts, "mixed_precision") == "has no equivalent");
}

TEST_CASE("a class of models has numbers of its own") {
  const std::string partial = R"(
model:
  _target_: megatron.bridge.models.llama.llama_provider.Llama31ModelProvider8B
  seq_length: 8192
  tensor_model_parallel_size: 2
  vocab_size: 128256
train: {global_batch_size: 32, micro_batch_size: 2}
)";
  const Facts facts = Read(partial, "", {.devices = 8});
  CHECK(facts.model.parameters == 8030261248);
  CHECK(facts.model.model->rope_scaling().factor() == 8);
  CHECK(facts.model.model->sequence() == 8192);
  CHECK(facts.batch.micro_batches == 4);
  for (const Setting& setting : facts.settings) CHECK(setting.name != "num_layers");
  CHECK(BridgeClassDefaults("nemo.collections.llm.gpt.model.llama.Llama3Config70B") ==
        BridgeClassDefaults("megatron.bridge.models.llama.Llama3ModelProvider70B"));
  CHECK(BridgeClassDefaults("a.B").empty());
}

TEST_CASE("a file that changes a recipe says so little") {
  const Facts facts = Read(
      "train: {global_batch_size: 64, micro_batch_size: 1}\n"
      "optimizer: {lr: 0.0001}\n",
      "torchrun --nproc_per_node=8 pretrain.py --recipe llama3_8b_pretrain");
  CHECK(facts.questions.size() == 3);  // the model, its sequence and its vocabulary
  CHECK(facts.unread.size() == 2);
  CHECK(facts.batch.micro_batches == 8);
}

TEST_CASE("experts over the data axis") {
  const Facts facts = Read(kBridge,
                           "torchrun --nnodes=4 --nproc-per-node=8 pretrain.py "
                           "model.num_moe_experts=16 model.moe_router_topk=2 "
                           "model.moe_ffn_hidden_size=2048 model.expert_model_parallel_size=4 "
                           "model.pipeline_model_parallel_size=1 model.moe_aux_loss_coeff=0.01");
  CHECK(facts.degrees.expert == 4);
  CHECK(facts.degrees.expert_tensor == 2);
  CHECK(facts.degrees.data == 16);
  CHECK(facts.model.model->experts() == 16);
  CHECK(facts.model.model->inner() == 2048);
}

TEST_CASE("rules that a configuration of Bridge breaks") {
  const auto broken = [](const std::string& words, int64_t devices = 16) {
    const Facts facts = Read(kBridge, "python pretrain.py " + words, {.devices = devices});
    REQUIRE(facts.broken.size() == 1);
    return facts.broken[0];
  };
  CHECK(broken("model.context_parallel_size=2", 24).numbers ==
        "24 is not a multiple of 2 x 4 x 2 = 16");
  CHECK(broken("train.global_batch_size=63").numbers == "63 is not a multiple of 1 x 2 = 2");
  const BrokenRule typo = broken("model.tensor_model_paralel_size=4");
  CHECK(typo.rule == "no unknown key");
  CHECK(typo.hint == "model.tensor_model_parallel_size=4");
  CHECK(broken("dataset.seq_length=4096").numbers ==
        "model.seq_length=8192, dataset.seq_length=4096");
  CHECK(broken("model.pipeline_model_parallel_size=8 model.num_layers=30").rule ==
        "layers must be a multiple of pipe x virtual stages");
}

constexpr const char* kNemo = R"(
name: llama3
trainer:
  devices: 8
  num_nodes: 16
  precision: bf16
  max_steps: 300000
  gradient_clip_val: 1.0
exp_manager:
  params:
    size: ${multiply:${model.tensor_model_parallel_size}, ${model.pipeline_model_parallel_size}}
model:
  micro_batch_size: 1
  global_batch_size: 512
  tensor_model_parallel_size: 8
  pipeline_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 5
  encoder_seq_length: 8192
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 80
  hidden_size: 8192
  ffn_hidden_size: 28672
  num_attention_heads: 64
  num_query_groups: 8
  hidden_dropout: 0.0
  attention_dropout: 0.0
  normalization: rmsnorm
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  rotary_percentage: 1.0
  rotary_base: 500000
  share_embeddings_and_output_weights: false
  tokenizer:
    library: huggingface
    type: meta-llama/Meta-Llama-3-70B
  sequence_parallel: true
  activations_checkpoint_granularity: full
  activations_checkpoint_method: uniform
  activations_checkpoint_num_layers: 1
  data:
    seq_length: ${model.encoder_seq_length}
  optim:
    name: mcore_distributed_optim
    lr: 1.5e-4
    betas: [0.9, 0.95]
    sched:
      name: CosineAnnealing
      warmup_steps: 2000
      constant_steps: 10000
      min_lr: 1.5e-5
)";

TEST_CASE("NeMo 1: Llama 3 70B on 128 GPUs") {
  const Facts facts = Read(kNemo,
                           "python megatron_gpt_pretraining.py --config-name=llama3 "
                           "model.encoder_seq_length=4096");
  CHECK(facts.system == "nemo");
  CHECK(facts.devices == 128);
  CHECK(facts.sequence == 4096);
  CHECK(facts.degrees.data == 4);
  CHECK(facts.schedule.chunks == 5);
  CHECK(facts.schedule.stage_layers == Counts(20, 4));
  CHECK(facts.sharding.what == "states");
  CHECK(facts.recompute.here == "full");
  CHECK(facts.model.vocab_given == 128256);
  CHECK(facts.model.model->vocab() == 129024);
  CHECK(facts.optimizer.beta2 == 0.95);
  CHECK(facts.optimizer.schedule == "cosine");
  CHECK(facts.optimizer.decay_steps == 290000);
  CHECK(Find(facts, "exp_manager.params.size").ValueText() == "32");
  CHECK(Find(facts, "model.data.seq_length").ValueText() == "4096");
  CHECK(Find(facts, "model.activation").ValueText() == "fast-swiglu");
  CHECK(FindList(facts, "model.optim.name") == "taken");
  CHECK(FindList(facts, "trainer.devices") == "taken");
  CHECK(facts.broken.empty());
}

TEST_CASE("NeMo 1: a word without + changes only what is there") {
  const Facts facts = Read(kNemo,
                           "python megatron_gpt_pretraining.py model.tensor_model_paralel_size=4 "
                           "+model.context_parallel_size=2");
  REQUIRE(facts.broken.size() == 1);
  CHECK(facts.broken[0].hint == "model.tensor_model_parallel_size=4");
  CHECK(facts.degrees.context == 2);
}

TEST_CASE("NeMo 1: what cannot be resolved is named") {
  const Facts facts =
      Read(absl::StrReplaceAll(kNemo, {{"${.encoder_seq_length}", "${oc.env:LENGTH}"}}), "");
  REQUIRE(facts.unread.size() == 1);
  CHECK(facts.unread[0].find("${oc.env:LENGTH}") != std::string::npos);
}

TEST_CASE("NeMo 2: strategy, optimizer and a class of models") {
  const Facts facts = Read(R"(
_target_: nemo.collections.llm.api.pretrain
data: {global_batch_size: 512, micro_batch_size: 1, seq_length: 8192}
model:
  _target_: nemo.collections.llm.gpt.model.llama.LlamaModel
  config:
    _target_: nemo.collections.llm.gpt.model.llama.Llama3Config70B
optim:
  config: {lr: 0.0003, adam_beta2: 0.95, optimizer: adam, use_distributed_optimizer: true}
  lr_scheduler: {constant_steps: 0, min_lr: 3.0e-05, warmup_steps: 2000}
trainer:
  devices: 8
  num_nodes: 8
  max_steps: 1000
  plugins: {precision: bf16-mixed, grad_reduce_in_fp32: true}
  strategy:
    tensor_model_parallel_size: 4
    pipeline_model_parallel_size: 4
    virtual_pipeline_model_parallel_size: 5
    context_parallel_size: 2
    sequence_parallel: true
log: {name: x}
)",
                           "", {.vocab = 128256});
  CHECK(facts.form == "YAML of NeMo 2");
  CHECK(facts.devices == 64);
  CHECK(facts.degrees.data == 2);
  CHECK(facts.batch.micro_batches == 256);
  CHECK(facts.schedule.stage_layers == Counts(20, 4));
  CHECK(facts.sharding.ways == 4);
  CHECK(facts.precision.here == "bf16");
  CHECK(facts.model.model->vocab() == 128512);
  CHECK(facts.optimizer.warmup_steps == 2000);
  CHECK(FindList(facts, "log.name") == "has no effect on a plan");
}

TEST_CASE("bad values of Bridge are errors") {
  CHECK(TryRead(kBridge, "python pretrain.py model.num_layers=many", {.devices = 8})
            .status()
            .message() == "model.num_layers=many: is no number");
  CHECK(TryRead("a: 1", "").status().message() == "of another system");
}

}  // namespace
}  // namespace oneflow::foreign
