// What argparse refuses among the words of Megatron-LM: a value that is none of a flag's choices, a
// number of another kind, a value behind a switch, underscores in place of dashes.
#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/megatron_facts.h"

namespace oneflow::foreign {
namespace {

// Choices of all releases together.
constexpr std::pair<std::string_view, std::string_view> kChoices[] = {
    {"position_embedding_type", "learned_absolute rope mrope yarn relative none alibi rotary"},
    {"lr_decay_style", "constant linear cosine inverse-square-root WSD"},
    {"normalization", "LayerNorm RMSNorm layernorm rmsnorm"},
    {"recompute_granularity", "full selective"},
    {"recompute_method", "uniform block"},
    {"moe_router_load_balancing_type", "aux_loss seq_aux_loss global_aux_loss sinkhorn none"},
    {"moe_token_dispatcher_type", "allgather alltoall alltoall_seq flex"},
    {"moe_router_score_function", "softmax sigmoid sqrtsoftplus"},
    {"fp8_format", "e4m3 hybrid"},
    {"fp8_recipe", "tensorwise delayed mxfp8 blockwise custom"},
    {"attention_backend", "flash fused unfused local auto"},
    {"data_parallel_sharding_strategy", "no_shard optim optim_grads optim_grads_params"},
    {"transformer_impl", "local transformer_engine inference_optimized"},
    {"cross_entropy_fusion_impl", "native te"},
    {"dataloader_type", "single cyclic external"},
    {"weight_decay_incr_style", "constant linear cosine"},
    {"distributed_backend", "nccl gloo"}};

constexpr std::string_view kIntegers =
    " num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups kv_channels "
    "seq_length max_position_embeddings micro_batch_size global_batch_size train_iters "
    "train_samples lr_decay_iters lr_decay_samples lr_warmup_iters lr_warmup_samples "
    "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size "
    "expert_model_parallel_size expert_tensor_parallel_size num_experts moe_router_topk "
    "moe_ffn_hidden_size recompute_num_layers vocab_size make_vocab_size_divisible_by eval_iters "
    "eval_interval save_interval log_interval num_layers_per_virtual_pipeline_stage "
    "num_virtual_stages_per_pipeline_rank decoder_first_pipeline_num_layers "
    "decoder_last_pipeline_num_layers ";

constexpr std::string_view kSwitches =
    " bf16 fp16 sequence_parallel use_distributed_optimizer use_mcore_models swiglu "
    "untie_embeddings_and_output_weights disable_bias_linear group_query_attention "
    "overlap_grad_reduce overlap_param_gather tp_comm_overlap recompute_activations qk_layernorm "
    "multi_latent_attention moe_grouped_gemm moe_permute_fusion use_flash_attn "
    "use_megatron_fsdp use_torch_fsdp2 use_custom_fsdp optimizer_cpu_offload mock_data "
    "add_qkv_bias use_rotary_position_embeddings use_rope_scaling fp8_param_gather "
    "account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split "
    "use_precision_aware_optimizer grad_reduce_in_bf16 manual_gc log_throughput squared_relu "
    "moe_router_pre_softmax moe_router_enable_expert_bias calculate_per_token_loss ";

// Flags that have underscores there.
constexpr std::string_view kUnderscores =
    " --local_rank --override-opt_param-scheduler --use-checkpoint-opt_param-scheduler "
    "--deepspeed_config --deepscale_config --deepspeed_mpi --barrier-with-L1-time ";

bool Has(std::string_view list, std::string_view word) {
  return list.find(absl::StrCat(" ", ToAbsl(word), " ")) != std::string_view::npos;
}

bool IsInteger(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin() + (text[0] == '-' || text[0] == '+' ? 1 : 0), text.end(),
                     [](char c) { return absl::ascii_isdigit(c) || c == '_'; });
}

void CheckChoice(const Setting& setting, Facts* facts) {
  const auto* const known = std::find_if(std::begin(kChoices), std::end(kChoices),
                                         [&](const auto& c) { return c.first == setting.key; });
  if (known == std::end(kChoices)) return;
  const std::vector<std::string> choices =
      absl::StrSplit(ToAbsl(known->second), ' ', absl::SkipEmpty());
  std::vector<std::string> values = {setting.ValueText()};
  if (setting.value.is_array()) {
    values.clear();
    for (const auto& value : setting.value) values.push_back(value.get<std::string>());
  }
  for (const std::string& value : values) {
    if (value.find('$') != std::string::npos) continue;
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) continue;
    const std::string nearest = Nearest(value, choices);
    facts->broken.push_back(
        {.rule = "a flag takes one of its choices",
         .numbers = absl::StrCat(setting.name, " ", value),
         .theirs = absl::StrCat("argument ", setting.name, ": invalid choice: '", value,
                                "' (choose from '", absl::StrJoin(choices, "', '"), "')"),
         .hint = absl::StrCat(setting.name, " ", nearest.empty() ? choices[0] : nearest),
         .where = setting.where});
  }
}

}  // namespace

void RefuseUnderscores(Facts* facts) {
  for (Setting& setting : facts->settings) {
    const std::string& name = setting.name;
    if (!name.starts_with("--") || name.find('_') == std::string::npos ||
        setting.list == List::kUnknown || Has(kUnderscores, name)) {
      continue;
    }
    std::string dashes = name;
    std::replace(dashes.begin(), dashes.end(), '_', '-');
    setting.list = List::kUnknown;
    setting.note = absl::StrCat("did you mean ", dashes, "?");
  }
}

void CheckMegatronWords(Facts* facts) {
  const std::vector<Setting> settings = facts->settings;
  for (const Setting& setting : settings) {
    if (!setting.name.starts_with("--") || setting.list == List::kUnknown) continue;
    const std::string value = setting.ValueText();
    // "--bf16 $MORE": the rest is named as not read.
    const bool is_computed = value.starts_with('$') || value.starts_with('`');
    if (Has(kSwitches, setting.key) && !setting.is_switch && !is_computed) {
      facts->broken.push_back({.rule = "a switch takes no value",
                               .numbers = absl::StrCat(setting.name, " ", value),
                               .theirs = absl::StrCat("unrecognized arguments: ", value),
                               .hint = absl::StrCat(setting.name, " alone, or leave it out"),
                               .where = setting.where});
    }
    if (setting.is_switch) continue;
    double number = 0;
    if (Has(kIntegers, setting.key) && !IsInteger(value) && absl::SimpleAtod(value, &number)) {
      facts->broken.push_back(
          {.rule = "a whole number has neither a point nor an exponent",
           .numbers = absl::StrCat(setting.name, " ", value),
           .theirs = absl::StrCat("argument ", setting.name, ": invalid int value: '", value, "'"),
           .hint = absl::StrCat(setting.name, " ", static_cast<int64_t>(number)),
           .where = setting.where});
    }
    CheckChoice(setting, facts);
  }
}

}  // namespace oneflow::foreign
