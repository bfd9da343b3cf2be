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
  void Break(std::string_view about, std::string rule, std::string theirs, std::string mend,
             std::string numbers = "") {
    const Setting* setting = settings_.Find(about);
    if (numbers.empty() && setting != nullptr) {
      numbers = absl::StrCat(setting->name, setting->is_switch ? "" : " ", setting->ValueText());
    }
    facts_->broken.push_back({.rule = std::move(rule),
                              .numbers = std::move(numbers),
                              .theirs = std::move(theirs),
                              .mend = std::move(mend),
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

void CheckRecompute(Rules& rules) {
  const std::string granularity = rules.Text("recompute_granularity");
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

void CheckMegatronRules(const Settings& settings, int64_t positions, Facts* facts) {
  Rules rules(settings, facts);
  constexpr std::pair<const char*, const char*> kOld[] = {
      {"batch_size", "--micro-batch-size"},
      {"warmup", "--lr-warmup-fraction"},
      {"model_parallel_size", "--tensor-model-parallel-size"},
      {"checkpoint_activations", "--recompute-activations"}};
  for (const auto& [old, instead] : kOld) {
    if (!settings.Has(old)) continue;
    rules.Break(old, "the flag is no longer valid",
                absl::StrCat(settings.Find(old)->name, " is no longer valid, use ", instead),
                instead);
  }
  CheckSteps(rules);
  CheckNumbers(rules, *facts, positions);
  CheckExperts(rules, *facts);
  CheckRecompute(rules);
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
