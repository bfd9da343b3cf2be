// Rules that Megatron-LM checks before it trains (validate_args of megatron/training/arguments.py,
// TransformerConfig.__post_init__, the interleaved schedule), beside those that follow from degrees
// and batches.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

class Rules {
 public:
  Rules(const Settings& settings, Facts* facts) : settings_(settings), facts_(facts) {}

  bool IsOn(std::string_view key) const {
    const Setting* setting = settings_.Find(key);
    if (setting == nullptr) return false;
    const std::string text = absl::AsciiStrToLower(setting->ValueText());
    return setting->is_switch || !(setting->value.is_null() || text == "false" || text == "0" ||
                                   text == "none" || text.empty());
  }
  std::string Text(std::string_view key) const {
    const Setting* setting = settings_.Find(key);
    return setting == nullptr ? "" : setting->ValueText();
  }
  // `about`: the key that is shown.
  void Break(std::string_view about, std::string rule, std::string theirs, std::string hint,
             std::string numbers = "") {
    const Setting* setting = settings_.Find(about);
    if (numbers.empty() && setting != nullptr) {
      numbers = absl::StrCat(setting->name, setting->is_switch ? "" : " ", setting->ValueText());
    }
    facts_->broken.push_back({.rule = std::move(rule),
                              .numbers = std::move(numbers),
                              .theirs = std::move(theirs),
                              .hint = std::move(hint),
                              .where = setting == nullptr ? "" : setting->where});
  }
  // Two settings that exclude each other.
  void Exclude(std::string_view a, std::string_view b, const std::string& theirs) {
    if (!IsOn(a) || !IsOn(b)) return;
    const std::string first = settings_.Find(a)->name, second = settings_.Find(b)->name;
    Break(b, absl::StrCat(first, " and ", second, " exclude each other"), theirs,
          absl::StrCat("leave out ", first, " or ", second));
  }

 private:
  const Settings& settings_;
  Facts* facts_;
};

void CheckSteps(Rules& rules) {
  rules.Exclude("train_iters", "train_samples", "expected iteration-based training");
  rules.Exclude("train_iters", "lr_decay_samples", "expected iteration-based learning rate decay");
  rules.Exclude("train_iters", "lr_warmup_samples",
                "expected iteration-based learning rate warmup");
  rules.Exclude("train_samples", "lr_decay_iters", "expected sample-based learning rate decay");
  rules.Exclude("train_samples", "lr_warmup_iters", "expected sample-based learning rate warmup");
  rules.Exclude("lr_warmup_fraction", "lr_warmup_iters",
                "can only specify one of lr-warmup-fraction and lr-warmup-iters");
  rules.Exclude("lr_warmup_fraction", "lr_warmup_samples",
                "can only specify one of lr-warmup-fraction and lr-warmup-samples");
}

void CheckNumbers(Rules& rules, const Facts& facts, int64_t positions) {
  const OptimizerFacts& o = facts.optimizer;
  if (o.learning_rate && o.min_learning_rate && *o.min_learning_rate > *o.learning_rate) {
    rules.Break("min_lr", "min-lr must not be above lr", "assert args.min_lr <= args.lr",
                absl::StrCat("--min-lr of at most ", *o.learning_rate));
  }
  const int64_t context = facts.degrees.context;
  if (facts.sequence && context > 1 && *facts.sequence % (2 * context) != 0) {
    rules.Break("seq_length", "the sequence must be a multiple of 2 x context",
                "seq-length should be a multiple of 2 * context-parallel-size if "
                "context-parallel-size > 1.",
                absl::StrCat("--seq-length ", (*facts.sequence / (2 * context) + 1) * 2 * context),
                absl::StrCat(*facts.sequence, " is not a multiple of 2 x ", context));
  }
  if (facts.sequence && positions > 0 && positions < *facts.sequence) {
    rules.Break(
        "max_position_embeddings", "positions must be as many as the sequence has",
        absl::StrCat("max_position_embeddings (", positions,
                     ") must be greater than or equal to seq_length (", *facts.sequence, ")"),
        absl::StrCat("--max-position-embeddings ", *facts.sequence));
  }
  const int64_t tensor = facts.degrees.tensor;
  if (facts.sequence && facts.sequence_parallel && *facts.sequence % (tensor * context) != 0) {
    rules.Break("seq_length", "the sequence must be a multiple of tensor x context",
                "sequence length should be divisible by the tensor parallel size",
                absl::StrCat("--seq-length ",
                             (*facts.sequence / (tensor * context) + 1) * tensor * context),
                absl::StrCat(*facts.sequence, " is not a multiple of ", tensor * context));
  }
}

void CheckExperts(Rules& rules, const Facts& facts) {
  const DegreeFacts& d = facts.degrees;
  const int64_t experts = facts.model.model ? facts.model.model->experts() : 0;
  if (d.expert > 1 && experts == 0) {
    rules.Break("expert_model_parallel_size", "experts are split only where there are some",
                "num_experts must be non None to use expert-parallel", "--num-experts N");
    return;
  }
  if (experts == 0 && facts.model.model && rules.IsOn("moe_ffn_hidden_size")) {
    rules.Break("moe_ffn_hidden_size", "a width of experts needs experts",
                "moe_ffn_hidden_size is set but num_moe_experts is None.", "--num-experts N");
  }
  if (experts == 0) return;
  if (experts % d.expert != 0) {
    rules.Break("expert_model_parallel_size", "experts must be a multiple of their degree",
                "Number of experts should be a multiple of expert model parallel_size.",
                absl::StrCat("a degree that divides ", experts),
                absl::StrCat(experts, " is not a multiple of ", d.expert));
  }
  if (d.tensor > 1 && !facts.sequence_parallel) {
    rules.Break("tensor_model_parallel_size",
                "a mixture with tensor parallelism needs sequence parallelism",
                "When using MoE and tensor parallelism, sequence parallelism must be used",
                "--sequence-parallel");
  }
  if (rules.Text("moe_router_topk") == "1" && !rules.IsOn("moe_router_pre_softmax") &&
      rules.Text("moe_router_score_function") != "sigmoid") {
    rules.Break("moe_router_topk", "one expert a token needs its softmax before the choice",
                "Please use --moe-router-pre-softmax when topk is 1.", "--moe-router-pre-softmax");
  }
  if (rules.IsOn("moe_router_enable_expert_bias") &&
      rules.Text("moe_router_score_function") != "sigmoid" &&
      rules.Text("moe_router_score_function") != "sqrtsoftplus") {
    rules.Break("moe_router_enable_expert_bias", "biases of experts need scores of sigmoid",
                "Expert bias for aux-loss-free routing only supports 'sigmoid' and "
                "'sqrtsoftplus' score functions.",
                "--moe-router-score-function sigmoid");
  }
  if (rules.IsOn("moe_pad_expert_input_to_capacity") &&
      rules.Text("moe_expert_capacity_factor").empty()) {
    rules.Break("moe_pad_expert_input_to_capacity", "there is a capacity to pad to",
                "moe_expert_capacity_factor must be set to use moe_pad_expert_input_to_capacity",
                "--moe-expert-capacity-factor N");
  }
  const int64_t product = d.expert * d.expert_tensor * d.pipe;
  if (facts.devices && *facts.devices % product != 0) {
    rules.Break("expert_model_parallel_size", "GPUs must be a multiple of expert x tensor x pipe",
                absl::StrCat("world_size (", *facts.devices,
                             ") is not divisible by expert_tensor_model_pipeline_parallel size (",
                             product, ")"),
                "another degree of experts",
                absl::StrCat(*facts.devices, " is not a multiple of ", d.expert, " x ",
                             d.expert_tensor, " x ", d.pipe));
  }
}

// What must be said, and what is said twice.
void CheckRequired(Rules& rules, const Settings& settings) {
  const bool from_checkpoint = rules.IsOn("use_checkpoint_args") || settings.Has("yaml_cfg");
  if (settings.Has("num_layers") && settings.Has("hidden_size") && !from_checkpoint) {
    for (const auto& [key, flag] :
         {std::pair{"max_position_embeddings", "--max-position-embeddings"},
          {"micro_batch_size", "--micro-batch-size"},
          {"num_attention_heads", "--num-attention-heads"}}) {
      if (settings.Has(key)) continue;
      rules.Break("num_layers", absl::StrCat(flag, " must be given"),
                  absl::StrCat(key, " argument is None"), absl::StrCat(flag, " N"),
                  absl::StrCat(flag, " is missing"));
    }
  }
  rules.Exclude("num_layers", "encoder_num_layers",
                "cannot have both num-layers and encoder-num-layers specified");
  rules.Exclude("seq_length", "encoder_seq_length", "assert args.encoder_seq_length is None");
  rules.Exclude("mock_data", "data_path",
                "A single data source must be provided in training mode, else None");
  rules.Exclude("step_batch_size_schedule", "global_batch_size",
                "Cannot specify both --step-batch-size-schedule and --global-batch-size");
  if (rules.IsOn("no_position_embedding") && rules.Text("position_embedding_type") != "rope") {
    rules.Break("no_position_embedding", "positions are switched off by their type",
                "--no-position-embedding is deprecated, use --position-embedding-type",
                "--position-embedding-type rope");
  }
  const std::string style = rules.Text("weight_decay_incr_style");
  const bool ends = settings.Has("start_weight_decay") && settings.Has("end_weight_decay");
  if ((style == "linear" || style == "cosine") && !ends) {
    rules.Break("weight_decay_incr_style", "a weight decay that grows has two ends",
                "assert args.start_weight_decay is not None",
                "--start-weight-decay and --end-weight-decay");
  }
  if (rules.IsOn("fp16_lm_cross_entropy") && !rules.IsOn("fp16")) {
    rules.Break("fp16_lm_cross_entropy", "a loss in fp16 needs fp16",
                "lm cross entropy in fp16 only support in fp16 mode.", "leave it out");
  }
  if (rules.IsOn("fp32_residual_connection") && !rules.IsOn("fp16") && !rules.IsOn("bf16")) {
    rules.Break("fp32_residual_connection", "a residual in f32 needs a narrow type beside it",
                "residual connection in fp32 only supported when using fp16 or bf16.", "--bf16");
  }
  if (rules.IsOn("fp4_param_gather") && !settings.Has("fp4_format")) {
    rules.Break("fp4_param_gather", "weights in FP4 need products in FP4",
                "--fp4-param-gather must be used together with --fp4-format.", "--fp4-format e2m1");
  }
  if (rules.IsOn("fp8_param_gather") && !settings.Has("fp8_format") && !settings.Has("fp8")) {
    rules.Break("fp8_param_gather", "weights in FP8 need products in FP8",
                "fp8_param must be used together with fp8 mode.", "--fp8-format hybrid");
  }
}

// Offload, and what is kept of activations.
void CheckMemory(Rules& rules, const Facts& facts) {
  if (rules.IsOn("optimizer_cpu_offload") && !rules.IsOn("use_precision_aware_optimizer")) {
    rules.Break("optimizer_cpu_offload", "an optimizer on the host must know its precision",
                "The optimizer cpu offload must be used in conjunction with "
                "`--use-precision-aware-optimizer`",
                "--use-precision-aware-optimizer");
  }
  if (rules.IsOn("use_precision_aware_optimizer") && !rules.IsOn("use_distributed_optimizer") &&
      !rules.IsOn("use_megatron_fsdp")) {
    rules.Break("use_precision_aware_optimizer", "states of other precision must be split",
                "precision-aware optimizer only supported with distributed optimizer",
                "--use-distributed-optimizer");
  }
  const std::string blocks = rules.Text("cpu_offloading_num_layers");
  if (!blocks.empty() && blocks != "0") {
    if (facts.degrees.pipe > 1) {
      rules.Break("cpu_offloading_num_layers", "activations go to the host without a pipeline",
                  "Currently there is no support for Pipeline parallelism with CPU offloading",
                  "--pipeline-model-parallel-size 1");
    }
    if (rules.IsOn("recompute_granularity") || rules.IsOn("recompute_activations")) {
      rules.Break("cpu_offloading_num_layers", "activations go to the host or are recomputed",
                  "CPU offloading does not work when activation recomputation is enabled",
                  "leave out --recompute-granularity or --cpu-offloading-num-layers");
    }
  }
  if (!rules.IsOn("distribute_saved_activations")) return;
  if (facts.degrees.tensor < 2) {
    rules.Break("distribute_saved_activations", "what is kept is split over tensor",
                "can distribute recomputed activations only across tensor model parallel groups",
                "leave it out");
  } else if (rules.Text("recompute_granularity") != "full") {
    rules.Break("distribute_saved_activations", "what is kept is split in full recompute",
                "distributed recompute activations is only application to full recompute "
                "granularity",
                "--recompute-granularity full");
  } else if (facts.sequence_parallel) {
    rules.Break("distribute_saved_activations", "what is kept is split once",
                "distribute_saved_activations: True must be false when sequence parallel is "
                "enabled: True",
                "leave out --distribute-saved-activations");
  }
}

void CheckFullySharded(Rules& rules, const Settings& settings) {
  const std::string format = rules.Text("ckpt_format");
  if (rules.IsOn("use_megatron_fsdp") && settings.Has("ckpt_format") && format != "fsdp_dtensor") {
    rules.Break("ckpt_format", "Megatron-FSDP has a checkpoint format of its own",
                "Megatron-FSDP requires the `fsdp_dtensor` checkpointing format.",
                "--ckpt-format fsdp_dtensor");
  }
  if (format == "fsdp_dtensor" && !rules.IsOn("use_megatron_fsdp")) {
    rules.Break("ckpt_format", "the checkpoint format is that of Megatron-FSDP",
                "--ckpt-format fsdp_dtensor is only tested with Megatron FSDP.",
                "--use-megatron-fsdp, or --ckpt-format torch_dist");
  }
  if (!rules.IsOn("use_torch_fsdp2")) return;
  if (!rules.IsOn("untie_embeddings_and_output_weights")) {
    rules.Break("use_torch_fsdp2", "FSDP of PyTorch shares no weights",
                "--use-torch-fsdp2 requires --untie-embeddings-and-output-weights",
                "--untie-embeddings-and-output-weights");
  }
  if (rules.IsOn("fp16")) {
    rules.Break("fp16", "FSDP of PyTorch has no fp16",
                "--use-torch-fsdp2 not supported with fp16 yet", "--bf16");
  }
  if (!rules.IsOn("no_gradient_accumulation_fusion")) {
    rules.Break("use_torch_fsdp2", "FSDP of PyTorch adds up gradients itself",
                "--use-torch-fsdp2 is not supported with gradient accumulation fusion",
                "--no-gradient-accumulation-fusion");
  }
}

void CheckRecompute(Rules& rules, const Facts& facts) {
  const std::string granularity = rules.Text("recompute_granularity");
  const std::string modules = rules.Text("recompute_modules");
  if (granularity == "selective" && !rules.Text("recompute_num_layers").empty()) {
    rules.Break("recompute_num_layers", "selective recompute has no number of layers",
                "When using recompute_granularity: selective recompute_num_layers must be None.",
                "leave out --recompute-num-layers");
  }
  if (granularity == "selective" && modules.find("moe_act") != std::string::npos &&
      !rules.IsOn("moe_grouped_gemm")) {
    rules.Break("recompute_modules", "moe_act is a part of grouped products",
                "moe_act in recompute_modules is only supported with moe_grouped_gemm.",
                "--moe-grouped-gemm");
  }
  if (granularity == "selective" && modules.find("mla_up_proj") != std::string::npos &&
      !rules.IsOn("multi_latent_attention")) {
    rules.Break("recompute_modules", "mla_up_proj is a part of latent attention",
                "mla_up_proj in recompute_modules is only supported with multi_latent_attention.",
                "leave out mla_up_proj");
  }
  if (granularity == "selective" && rules.IsOn("recompute_method")) {
    rules.Break("recompute_method", "selective recompute has no method",
                "recompute method is not yet supported for selective recomputing granularity",
                "leave out --recompute-method");
  }
  if (granularity == "full" && rules.IsOn("recompute_method") &&
      rules.Text("recompute_num_layers").empty()) {
    rules.Break("recompute_granularity", "full recompute needs a number of layers",
                "When using recompute_granularity: full recompute_num_layers must be between 1 "
                "and num_layers_per_pipeline_rank",
                "--recompute-num-layers 1");
  }
}

void CheckOverlap(Rules& rules, const Facts& facts) {
  const bool shards = rules.IsOn("use_distributed_optimizer") || rules.IsOn("use_megatron_fsdp") ||
                      rules.IsOn("use_custom_fsdp");
  if (rules.IsOn("overlap_param_gather")) {
    if (!shards) {
      rules.Break("overlap_param_gather", "gathers overlap only where states are split",
                  "--overlap-param-gather only supported with distributed optimizer",
                  "--use-distributed-optimizer, or leave it out");
    } else if (!rules.IsOn("overlap_grad_reduce")) {
      rules.Break("overlap_param_gather", "gathers overlap only beside reductions",
                  "Must use --overlap-param-gather with --overlap-grad-reduce",
                  "--overlap-grad-reduce");
    }
  }
  if (rules.IsOn("tp_comm_overlap") && !facts.sequence_parallel && facts.degrees.tensor > 1) {
    rules.Break("tp_comm_overlap", "tensor exchanges overlap only with sequence parallelism",
                "Tensor parallel communication/GEMM overlap can happen only when sequence "
                "parallelism is enabled",
                "--sequence-parallel");
  }
  if (rules.IsOn("fp8_param_gather") && !shards && !rules.IsOn("use_torch_fsdp2")) {
    rules.Break("fp8_param_gather", "weights are gathered in FP8 only where states are split",
                "--fp8-param-gather only supported with distributed optimizer",
                "--use-distributed-optimizer");
  }
  if (rules.IsOn("use_torch_fsdp2")) {
    if (facts.degrees.pipe > 1) {
      rules.Break("use_torch_fsdp2", "FSDP of PyTorch has no pipeline",
                  "--use-torch-fsdp2 is not supported with pipeline parallelism",
                  "--pipeline-model-parallel-size 1");
    }
    rules.Exclude("use_torch_fsdp2", "use_distributed_optimizer",
                  "--use-torch-fsdp2 is not supported with MCore's distributed optimizer");
  }
}

void CheckInterleaving(Rules& rules, const Facts& facts) {
  const ScheduleFacts& schedule = facts.schedule;
  const auto& batch = facts.batch;
  if (schedule.chunks < 2 || !batch.global || !batch.micro || !facts.degrees.data) return;
  const int64_t product = *batch.micro * *facts.degrees.data;
  if (*batch.global % product != 0) return;
  const int64_t m = *batch.global / product, pipe = facts.degrees.pipe;
  if (m % pipe == 0) return;
  const std::string numbers = absl::StrCat(m, " is not a multiple of ", pipe);
  rules.Break("global_batch_size", "interleaving needs micro-batches in multiples of pipe",
              absl::StrCat("number of microbatches (", m,
                           ") is not divisible by pipeline-model-parallel-size (", pipe,
                           ") when using interleaved schedule"),
              absl::StrCat("--global-batch-size ", (m / pipe + 1) * pipe * product), numbers);
}

}  // namespace

void CheckMegatronRules(const Settings& settings, const MegatronForm& form, int64_t positions,
                        Facts* facts) {
  Rules rules(settings, facts);
  constexpr std::pair<const char*, const char*> kOld[] = {
      {"batch_size", "--micro-batch-size"},
      {"warmup", "--lr-warmup-fraction"},
      {"model_parallel_size", "--tensor-model-parallel-size"},
      {"checkpoint_activations", "--recompute-activations"}};
  for (const auto& [old, instead] : kOld) {
    if (!rules.IsOn(old) || form.deepspeed) continue;
    rules.Break(old, "the flag is no longer valid",
                absl::StrCat(settings.Find(old)->name, " is no longer valid, use ", instead),
                instead);
  }
  CheckSteps(rules);
  CheckNumbers(rules, *facts, positions);
  CheckExperts(rules, *facts);
  CheckRecompute(rules, *facts);
  CheckRequired(rules, settings);
  CheckMemory(rules, *facts);
  CheckFullySharded(rules, settings);
  CheckOverlap(rules, *facts);
  CheckInterleaving(rules, *facts);
  rules.Exclude("fp16", "bf16", "assert not args.bf16");
  rules.Exclude("fp4_format", "fp8_format",
                "--fp4-format and --fp8-format cannot be used simultaneously");
  rules.Exclude("num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
                "No more than one of the following arguments can be set at the same time");
  rules.Exclude("num_layers_per_virtual_pipeline_stage", "pipeline_model_parallel_layout",
                "No more than one of the following arguments can be set at the same time");
  rules.Exclude("num_layers_per_virtual_pipeline_stage", "decoder_first_pipeline_num_layers",
                "please use --num-virtual-stages-per-pipeline-rank to specify virtual pipeline "
                "parallel degree when enable uneven pipeline parallelism");
  if (rules.IsOn("save") && !settings.Has("save_interval")) {
    rules.Break("save", "checkpoints need an interval", "assert args.save_interval is not None",
                "--save-interval N");
  }
}

}  // namespace oneflow::foreign
