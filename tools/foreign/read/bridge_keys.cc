// Places of the files of Bridge and NeMo as Megatron's keys.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/bridge_parts.h"

namespace oneflow::foreign {
namespace {

struct BridgeSection {
  std::string_view prefix;
  int rank;
};

// Sections whose keys are Megatron's. The precision beats the model's own keys; of a sequence and
// of a vocabulary the model's count.
constexpr BridgeSection kBridgeSections[] = {
    {"mixed_precision.", 9},
    {"comm_overlap.", 8},
    {"model.transformer.", 7},
    {"model.", 6},
    {"ddp.", 5},
    {"optimizer.", 4},
    {"train.", 3},
    {"scheduler.", 3},
    {"validation.", 3},
    {"dataset.", 2},
    {"checkpoint.", 2},
    {"logger.", 2},
    {"rng.", 2},
    {"dist.", 2},
    {"tokenizer.", 1},
};

constexpr BridgeSection kNemo2Sections[] = {
    {"trainer.plugins.", 9},  {"trainer.strategy.ddp.", 8}, {"model.config.", 7},
    {"trainer.strategy.", 6}, {"optim.config.", 4},         {"data.", 2},
};

struct BridgeRename {
  std::string_view location, key;
};

// Keys that keep their section: Megatron has another of the name.
constexpr std::string_view kKeptPlaces[] = {
    "tokenizer.vocab_size",
    "tokenizer.make_vocab_size_divisible_by",
    "tokenizer.tensor_model_parallel_size",
    "tokenizer.rank",
    "dataset.random_seed",
    "dataset.context_parallel_size",
    "dataset.data_parallel_size",
    "dataset.hybrid_context_parallel",
    "dataset.sequence_parallel_size",
};

constexpr BridgeRename kBridgeRenames[] = {
    {"dataset.sequence_length", "seq_length"},
    {"scheduler.lr_warmup_steps", "lr_warmup_steps"},
    {"model.rotary_percentage", "rotary_percent"},
};

constexpr BridgeRename kNemo1Renames[] = {
    {"trainer.max_steps", "train_iters"},
    {"trainer.gradient_clip_val", "clip_grad"},
    {"model.encoder_seq_length", "seq_length"},
    {"model.data.seq_length", "model.data.seq_length"},
    {"model.activations_checkpoint_granularity", "recompute_granularity"},
    {"model.activations_checkpoint_method", "recompute_method"},
    {"model.activations_checkpoint_num_layers", "recompute_num_layers"},
    {"model.num_micro_batches_with_partial_activation_checkpoints",
     "num_microbatches_with_partial_activation_checkpoints"},
    {"model.override_vocab_size", "vocab_size"},
    {"model.scale_positional_embedding", "use_rope_scaling"},
    {"model.tokenizer.type", "tokenizer_model"},
    {"model.tokenizer.model", "model.tokenizer.model"},
    {"model.optim.name", "optimizer"},
    {"model.optim.lr", "lr"},
    {"model.optim.weight_decay", "weight_decay"},
    {"model.optim.eps", "adam_eps"},
    {"model.optim.sched.name", "lr_decay_style"},
    {"model.optim.sched.warmup_steps", "lr_warmup_iters"},
    {"model.optim.sched.warmup_ratio", "lr_warmup_fraction"},
    {"model.optim.sched.max_steps", "lr_decay_iters"},
    {"model.optim.sched.min_lr", "min_lr"},
    {"model.ub_tp_comm_overlap", "tp_comm_overlap"},
    {"model.num_moe_experts", "num_moe_experts"},
    {"model.qk_layernorm", "qk_layernorm"},
    {"model.rotary_percentage", "rotary_percent"},
    {"model.seq_len_interpolation_factor", "rotary_seq_len_interpolation_factor"},
    {"model.bias_dropout_add_fusion", "bias_dropout_fusion"},
    {"model.bias_gelu_fusion", "bias_gelu_fusion"},
    {"model.use_cpu_initialization", "use_cpu_initialization"},
};

constexpr BridgeRename kNemo2Renames[] = {
    {"trainer.max_steps", "train_iters"},
    {"trainer.gradient_clip_val", "trainer.gradient_clip_val"},
    {"optim.lr_scheduler.warmup_steps", "lr_warmup_iters"},
    {"optim.lr_scheduler.min_lr", "min_lr"},
    {"optim.lr_scheduler.max_steps", "lr_decay_iters"},
    {"trainer.strategy.ckpt_async_save", "async_save"},
    {"model.config.rotary_percentage", "rotary_percent"},
};

template <typename Table>
const std::string_view* FindRename(const Table& table, std::string_view location) {
  for (const BridgeRename& rename : table) {
    if (rename.location == location) return &rename.key;
  }
  return nullptr;
}

template <typename Table>
BridgeKey WithoutSection(const Table& sections, std::string_view location) {
  for (const BridgeSection& section : sections) {
    if (location.starts_with(section.prefix)) {
      return {std::string(location.substr(section.prefix.size())), section.rank};
    }
  }
  return {std::string(location)};
}

struct BridgeClass {
  std::string_view name, settings;
};

// Shared by the classes of one family; the first word of a row may name another row.
constexpr BridgeClass kBridgeClasses[] = {
    {"Llama",
     "normalization=RMSNorm activation_func=silu gated_linear_unit=true "
     "position_embedding_type=rope add_bias_linear=false seq_length=4096 attention_dropout=0 "
     "hidden_dropout=0 share_embeddings_and_output_weights=false"},
    {"Llama27B",
     "@Llama num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=32 "
     "ffn_hidden_size=11008"},
    {"Llama213B",
     "@Llama num_layers=40 hidden_size=5120 num_attention_heads=40 num_query_groups=40 "
     "ffn_hidden_size=13824"},
    {"Llama270B",
     "@Llama num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 "
     "ffn_hidden_size=28672"},
    {"Llama3", "@Llama num_query_groups=8 layernorm_epsilon=1e-5 rotary_percent=1"},
    {"Llama38B",
     "@Llama3 rotary_base=500000 seq_length=8192 num_layers=32 hidden_size=4096 "
     "ffn_hidden_size=14336 num_attention_heads=32"},
    {"Llama370B",
     "@Llama3 rotary_base=500000 seq_length=8192 num_layers=80 hidden_size=8192 "
     "ffn_hidden_size=28672 num_attention_heads=64"},
    {"Llama31", "@Llama3 rope_scaling=true rope_scaling_factor=8"},
    {"Llama318B",
     "@Llama31 rotary_base=500000 seq_length=131072 num_layers=32 hidden_size=4096 "
     "ffn_hidden_size=14336 num_attention_heads=32"},
    {"Llama3170B",
     "@Llama31 rotary_base=500000 seq_length=131072 num_layers=80 hidden_size=8192 "
     "ffn_hidden_size=28672 num_attention_heads=64"},
    {"Llama31405B",
     "@Llama31 rotary_base=500000 seq_length=131072 num_layers=126 hidden_size=16384 "
     "ffn_hidden_size=53248 num_attention_heads=128"},
    {"Llama321B",
     "@Llama31 rope_scaling_factor=32 share_embeddings_and_output_weights=true "
     "rotary_base=500000 seq_length=131072 num_layers=16 hidden_size=2048 ffn_hidden_size=8192 "
     "num_attention_heads=32"},
    {"Llama323B",
     "@Llama31 rope_scaling_factor=32 share_embeddings_and_output_weights=true "
     "rotary_base=500000 seq_length=131072 num_layers=28 hidden_size=3072 ffn_hidden_size=8192 "
     "num_attention_heads=24"},
    {"Qwen3",
     "normalization=RMSNorm activation_func=silu gated_linear_unit=true add_bias_linear=false "
     "qk_layernorm=true kv_channels=128 num_query_groups=8 position_embedding_type=rope "
     "rotary_base=1000000 layernorm_epsilon=1e-6 attention_dropout=0 hidden_dropout=0 "
     "share_embeddings_and_output_weights=false vocab_size=151936 seq_length=40960"},
    {"Qwen38B",
     "@Qwen3 num_layers=36 hidden_size=4096 num_attention_heads=32 ffn_hidden_size=12288"},
    {"Qwen314B",
     "@Qwen3 num_layers=40 hidden_size=5120 num_attention_heads=40 ffn_hidden_size=17408"},
    {"Qwen332B",
     "@Qwen3 num_layers=64 hidden_size=5120 num_attention_heads=64 ffn_hidden_size=25600"},
};

std::string ClassWords(std::string_view name) {
  const auto found = std::find_if(std::begin(kBridgeClasses), std::end(kBridgeClasses),
                                  [&](const BridgeClass& c) { return c.name == name; });
  if (found == std::end(kBridgeClasses)) return "";
  std::string_view words = found->settings;
  if (!words.starts_with('@')) return std::string(words);
  const size_t blank = words.find(' ');
  return absl::StrCat(ClassWords(words.substr(1, blank - 1)), ToAbsl(words.substr(blank)));
}

}  // namespace

BridgeKey KeyOfBridgePlace(BridgeKind kind, std::string_view location) {
  if (kind == BridgeKind::kBridge) {
    if (std::find(std::begin(kKeptPlaces), std::end(kKeptPlaces), location) !=
        std::end(kKeptPlaces)) {
      return {std::string(location)};
    }
    if (const std::string_view* key = FindRename(kBridgeRenames, location)) {
      return {std::string(*key), 1};
    }
    return WithoutSection(kBridgeSections, location);
  }
  if (kind == BridgeKind::kNemo2) {
    if (const std::string_view* key = FindRename(kNemo2Renames, location)) {
      return {std::string(*key), 1};
    }
    return WithoutSection(kNemo2Sections, location);
  }
  if (const std::string_view* key = FindRename(kNemo1Renames, location)) {
    return {std::string(*key), 9};
  }
  // "model.num_layers", but "model.data.num_workers" stays.
  if (!location.starts_with("model.") || location.find('.', 6) != std::string_view::npos) {
    return {std::string(location)};
  }
  return {std::string(location.substr(6)), 6};
}

std::string BridgeClassDefaults(std::string_view target) {
  std::string name(target.substr(target.rfind('.') + 1));
  for (const std::string_view word : {"ModelProvider", "Config"}) {
    const size_t at = name.find(word);
    if (at != std::string::npos) name.erase(at, word.size());
  }
  return ClassWords(name);
}

}  // namespace oneflow::foreign
