#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/read/torchtitan_parts.h"

namespace oneflow::foreign {
namespace {

// Models that a llama of this planner is, or is near. Numbers of torchtitan's model_registry.
struct TitanFlavor {
  std::string_view model, flavor;
  int64_t layers, hidden, heads, groups, head_dim, ffn, vocab;
  double theta;
  bool tied = false;
  int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;
  int64_t dense = 0;  // blocks whose MLP is `ffn` wide beside those of experts
};

constexpr TitanFlavor kTitanFlavors[] = {
    // Of 2024.
    {"llama2", "debugmodel", 8, 256, 16, 16, 16, 768, 32000, 10000},
    {"llama2", "7B", 32, 4096, 32, 32, 128, 11008, 32000, 10000},
    {"llama2", "13B", 40, 5120, 40, 40, 128, 13824, 32000, 10000},
    {"llama2", "70B", 80, 8192, 64, 8, 128, 28672, 32000, 10000},
    {"llama3", "debugmodel", 6, 256, 16, 16, 16, 768, 2048, 500000},
    {"llama3", "1B", 16, 2048, 32, 8, 64, 8192, 128256, 500000, true},
    {"llama3", "3B", 28, 3072, 24, 8, 128, 8192, 128256, 500000, true},
    {"llama3", "8B", 32, 4096, 32, 8, 128, 14336, 128256, 500000},
    {"llama3", "70B", 80, 8192, 64, 8, 128, 28672, 128256, 500000},
    {"llama3", "405B", 126, 16384, 128, 8, 128, 53248, 128256, 500000},
    {"qwen3", "debugmodel", 8, 256, 16, 8, 128, 3072, 2048, 1000000, true},
    {"qwen3", "0.6B", 28, 1024, 16, 8, 128, 3072, 151936, 1000000, true},
    {"qwen3", "1.7B", 28, 2048, 16, 8, 128, 6144, 151936, 1000000, true},
    {"qwen3", "4B", 36, 2560, 32, 8, 128, 9728, 151936, 1000000, true},
    {"qwen3", "8B", 36, 4096, 32, 8, 128, 12288, 151936, 1000000},
    {"qwen3", "14B", 40, 5120, 40, 8, 128, 17408, 151936, 1000000},
    {"qwen3", "32B", 64, 5120, 64, 8, 128, 25600, 151936, 1000000},
    {"qwen3", "debugmodel_moe", 8, 256, 16, 8, 128, 3072, 2048, 1000000, false, 64, 8, 768},
    {"qwen3", "30B-A3B", 48, 2048, 32, 4, 128, 6144, 151936, 1000000, false, 128, 8, 768},
    {"qwen3", "235B-A22B", 94, 4096, 64, 4, 128, 12288, 151936, 5000000, false, 128, 8, 1536},
    {"llama4", "debugmodel", 6, 256, 16, 16, 16, 768, 2048, 500000, false, 8, 1, 512, 512, 3},
    {"llama4", "17bx16e", 48, 5120, 40, 8, 128, 16384, 202048, 500000, false, 16, 1, 8192, 8192},
    {"llama4", "17bx128e", 48, 5120, 40, 8, 128, 16384, 202048, 500000, false, 128, 1, 8192, 8192,
     24},
    {"deepseek_v3", "debugmodel", 6, 256, 16, 16, 128, 1024, 2048, 10000, false, 8, 3, 256, 512, 1},
    {"deepseek_v3", "16B", 27, 2048, 16, 16, 128, 10944, 102400, 10000, false, 64, 6, 1408, 2816,
     1},
    {"deepseek_v3", "236B", 60, 5120, 128, 128, 128, 12288, 102400, 10000, false, 160, 6, 1536,
     3072, 1},
    {"deepseek_v3", "671B", 61, 7168, 128, 128, 128, 18432, 129280, 10000, false, 256, 8, 2048,
     2048, 3},
    {"gpt_oss", "debugmodel", 4, 256, 64, 8, 64, 2880, 201088, 150000, false, 8, 4, 2880},
    {"gpt_oss", "20b", 24, 2880, 64, 8, 64, 2880, 201088, 150000, false, 32, 4, 2880},
    {"gpt_oss", "120b", 36, 2880, 64, 8, 64, 2880, 201088, 150000, false, 128, 4, 2880},
};

ShapeNumbers LlamaShape(const TitanFlavor& f) {
  ShapeNumbers shape{.layers = f.layers, .hidden = f.hidden, .heads = f.heads, .groups = f.groups};
  shape.ffn = f.ffn;
  shape.head_dim = f.head_dim;
  shape.vocab = f.vocab;
  shape.gated = shape.rms_norm = true;
  shape.activation = "silu";
  shape.biases = shape.norm_bias = false;
  shape.tied = f.tied;
  shape.positions = "rope";
  shape.theta = f.theta;
  shape.experts = f.experts;
  shape.experts_per_token = f.top_k;
  shape.expert_ffn = f.expert_ffn;
  shape.shared_ffn = f.shared_ffn;
  shape.dense_layers = f.dense;
  return shape;
}

void DescribeLlama4(std::string_view flavor, ShapeNumbers* shape) {
  shape->scores = "sigmoid";
  shape->norm_topk_prob = false;
  shape->bias_rate = 1e-3;
  shape->differences.push_back({.what = "scores weigh the inputs of experts, not their outputs"});
  if (flavor != "17bx128e") {
    shape->differences.push_back({.what = "rotary frequencies scaled by 16 without a blend"});
  }
  if (flavor.ends_with("irope")) {
    shape->differences.push_back(
        {.what = "attention within chunks of 8,192 positions; every fourth block has no rotary "
                 "positions and sees all"});
  }
}

// Latent attention: queries, keys and values through narrow products.
void DescribeDeepSeek(std::string_view flavor, ShapeNumbers* shape) {
  const bool is_large = flavor == "236B" || flavor == "671B";
  shape->query_rank = is_large ? 1536 : 0;
  shape->latent_rank = 512;
  shape->rotary_dim = 64;
  shape->value_dim = shape->head_dim;
  shape->head_dim += shape->rotary_dim;
  shape->scores = flavor == "671B" ? "sigmoid" : "softmax";
  shape->norm_topk_prob = flavor == "671B";
  shape->bias_rate = 1e-3;
  if (is_large) {
    shape->differences.push_back({.what = "tokens choose among groups of experts first"});
  }
}

void DescribeGptOss(const TitanFlavor& f, ShapeNumbers* shape) {
  shape->qkv_bias = true;
  shape->norm_topk_prob = true;
  shape->bias_rate = 1e-3;
  shape->differences.push_back({.what = "each head has a sink", .parameters = f.layers * f.heads});
  shape->differences.push_back(
      {.what = "biases of the attention's output, router and experts",
       .parameters =
           f.layers * (f.hidden + f.experts + f.experts * (2 * f.expert_ffn + f.hidden))});
  shape->differences.push_back({.what = "every second block sees 128 positions: fewer FLOPs"});
  shape->differences.push_back({.what = "the gate is clamped at 7"});
  shape->other_scaling = "yarn";
}

// "8B" of "8B_flex": kernels of attention and layouts of weights change no number.
std::string PlainFlavor(std::string_view flavor) {
  for (const std::string_view suffix : {"_flex_attn", "_varlen_attn", "_non_fused_qkv",
                                        "_fused_qkv", "_flex", "_varlen", "_dist_gemm", "_irope"}) {
    if (flavor.ends_with(suffix)) flavor.remove_suffix(suffix.size());
  }
  return std::string(flavor);
}

struct TitanNamed {
  std::string_view name, model, flavor, settings;
};

constexpr TitanNamed kTitanNamed[] = {
    {"llama3_debugmodel", "llama3", "debugmodel",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=2 lr_scheduler.decay_ratio=0.8 "
     "training.local_batch_size=8 training.seq_len=2048 training.steps=10 "
     "parallelism.pipeline_parallel_schedule=Interleaved1F1B"},
    {"llama3_8b", "llama3", "8B",
     "optimizer.lr=3e-4 training.local_batch_size=1 training.seq_len=8192 training.steps=1000"},
    {"llama3_70b", "llama3", "70B",
     "optimizer.lr=1.5e-4 training.local_batch_size=8 training.seq_len=8192 training.steps=1000 "
     "parallelism.tensor_parallel_degree=8 activation_checkpoint.mode=full"},
    {"llama3_405b", "llama3", "405B",
     "optimizer.lr=8e-5 lr_scheduler.warmup_steps=600 training.local_batch_size=2 "
     "training.seq_len=8192 training.steps=3000 parallelism.tensor_parallel_degree=8 "
     "activation_checkpoint.mode=full model.converters=float8 compile.enable=true "
     "parallelism.enable_async_tensor_parallel=true"},
    {"qwen3_debugmodel", "qwen3", "debugmodel",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=2 lr_scheduler.decay_ratio=0.8 "
     "training.local_batch_size=8 training.seq_len=2048 training.steps=10"},
    {"qwen3_0_6b", "qwen3", "0.6B",
     "optimizer.lr=3e-4 lr_scheduler.warmup_steps=2 training.local_batch_size=4 "
     "training.seq_len=4096 training.steps=10"},
    {"qwen3_1_7b", "qwen3", "1.7B",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=20 training.local_batch_size=4 "
     "training.seq_len=4096 training.steps=100"},
    {"qwen3_14b", "qwen3", "14B",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=600 training.local_batch_size=4 "
     "training.seq_len=4096 training.steps=3000 activation_checkpoint.mode=full"},
    {"qwen3_32b", "qwen3", "32B",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=600 training.local_batch_size=2 "
     "training.seq_len=4096 training.steps=3000 activation_checkpoint.mode=full"},
    {"qwen3_moe_debug", "qwen3", "debugmodel_moe",
     "optimizer.lr=3e-4 lr_scheduler.warmup_steps=2 training.local_batch_size=4 "
     "training.seq_len=4096 training.steps=10"},
    {"qwen3_30b_a3b", "qwen3", "30B-A3B",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=600 training.local_batch_size=2 "
     "training.seq_len=4096 training.steps=3000 activation_checkpoint.mode=full"},
    {"deepseek_v3_debugmodel", "deepseek_v3", "debugmodel",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=2 lr_scheduler.decay_ratio=0.8 "
     "training.local_batch_size=8 training.seq_len=2048 training.steps=10"},
    {"deepseek_v3_16b", "deepseek_v3", "16B",
     "optimizer.lr=2.2e-4 lr_scheduler.decay_ratio=0.8 lr_scheduler.decay_type=cosine "
     "lr_scheduler.min_lr_factor=0.1 training.local_batch_size=4 training.seq_len=4096 "
     "training.steps=1000 parallelism.pipeline_parallel_schedule=Interleaved1F1B "
     "parallelism.expert_parallel_degree=8"},
    {"deepseek_v3_671b", "deepseek_v3", "671B",
     "optimizer.lr=2.2e-4 lr_scheduler.warmup_steps=2000 lr_scheduler.decay_ratio=0.8 "
     "lr_scheduler.decay_type=cosine lr_scheduler.min_lr_factor=0.1 "
     "training.local_batch_size=4 training.seq_len=4096 training.steps=10000 "
     "parallelism.pipeline_parallel_schedule=Interleaved1F1B "
     "parallelism.expert_parallel_degree=2 model.converters=float8"},
    {"gpt_oss_debugmodel", "gpt_oss", "debugmodel",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=2 lr_scheduler.decay_ratio=0.8 "
     "training.local_batch_size=8 training.seq_len=2048 training.steps=10 "
     "activation_checkpoint.mode=none"},
    {"gpt_oss_20b", "gpt_oss", "20b",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=2000 lr_scheduler.decay_ratio=0.8 "
     "lr_scheduler.decay_type=cosine lr_scheduler.min_lr_factor=0.1 "
     "training.local_batch_size=1 training.seq_len=8192 training.steps=10000 "
     "activation_checkpoint.mode=full"},
    {"gpt_oss_120b", "gpt_oss", "120b",
     "optimizer.lr=8e-4 lr_scheduler.warmup_steps=2000 lr_scheduler.decay_ratio=0.8 "
     "lr_scheduler.decay_type=cosine lr_scheduler.min_lr_factor=0.1 "
     "training.local_batch_size=1 training.seq_len=8192 training.steps=10000 "
     "activation_checkpoint.mode=full"},
    {"llama4_debugmodel", "llama4", "debugmodel",
     "optimizer.lr=4e-3 optimizer.eps=1e-15 lr_scheduler.warmup_steps=2 "
     "lr_scheduler.decay_ratio=0.8 lr_scheduler.min_lr_factor=0.1 training.local_batch_size=8 "
     "training.seq_len=2048 "
     "training.steps=10"},
    {"llama4_17bx16e", "llama4", "17bx16e",
     "optimizer.lr=4e-3 optimizer.eps=1e-15 lr_scheduler.warmup_steps=600 "
     "lr_scheduler.min_lr_factor=0.1 training.local_batch_size=8 training.seq_len=8192 "
     "training.steps=3000 parallelism.tensor_parallel_degree=8 activation_checkpoint.mode=full"},
    {"llama4_17bx128e", "llama4", "17bx128e",
     "optimizer.lr=4e-3 optimizer.eps=1e-15 lr_scheduler.warmup_steps=600 "
     "lr_scheduler.min_lr_factor=0.1 training.local_batch_size=1 training.seq_len=8192 "
     "training.steps=3000 parallelism.tensor_parallel_degree=8 "
     "parallelism.pipeline_parallel_degree=4 activation_checkpoint.mode=full"},
};

}  // namespace

TitanModel FindTitanModel(const std::string& full_name, const std::string& flavor,
                          bool scales_rope) {
  // "simple_fsdp.llama3" and "llama3_ft" are llama3 trained in another way.
  std::string name = full_name.substr(full_name.rfind('.') + 1);
  for (const std::string_view suffix : {"_ft", "_simple_fsdp"}) {
    if (name.ends_with(suffix)) name.erase(name.size() - suffix.size());
  }
  if (name.starts_with("flux")) {
    return {.what_is_wrong = "makes images: it is not a model of text",
            .hint = "a model of text, such as llama3"};
  }
  const std::string plain = PlainFlavor(flavor);
  std::vector<std::string> models, flavors;
  for (const TitanFlavor& f : kTitanFlavors) {
    if (models.empty() || models.back() != f.model) models.emplace_back(f.model);
    if (f.model != name) continue;
    flavors.emplace_back(f.flavor);
    if (f.flavor != plain) continue;
    ShapeNumbers shape = LlamaShape(f);
    if (name == "llama2" || (name == "llama3" && !scales_rope)) {
      // Rotary positions as they are.
    } else if (name == "llama3") {
      proto::RopeScaling scaling;
      scaling.set_factor(8);
      scaling.set_low(1);
      scaling.set_high(4);
      scaling.set_positions(8192);
      shape.rope_scaling = scaling;
    } else if (name == "qwen3") {
      shape.qk_norm = true;
      shape.norm_epsilon = 1e-6;
    } else if (name == "llama4") {
      DescribeLlama4(flavor, &shape);
    } else if (name == "deepseek_v3") {
      DescribeDeepSeek(plain, &shape);
    } else {
      DescribeGptOss(f, &shape);
    }
    return {.shape = shape};
  }
  if (flavors.empty()) {
    const std::string near = Nearest(name, models);
    return {.what_is_wrong = "is no model of torchtitan's that is known here",
            .hint = near.empty() ? "" : absl::StrCat(near, ", if that is meant")};
  }
  const std::string near = Nearest(flavor, flavors);
  return {.what_is_wrong = absl::StrCat(name, " has no such flavor"),
          .hint = near.empty() ? absl::StrCat("one of ", flavors.front(), ", ..., ", flavors.back())
                               : near};
}

std::optional<std::string> FindTitanNamed(std::string_view name) {
  std::string_view more;
  for (const std::string_view prefix : {"graph_trainer_", "torchft_", "simple_fsdp_"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  for (const std::string_view suffix : {"_float8", "_mxfp8", "_nvfp4", "_fp8"}) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    more = " model.converters=float8";
  }
  if (name.ends_with("_ep")) name.remove_suffix(3);
  if (name.ends_with("_ce_loss")) name.remove_suffix(8);
  const std::string plain = PlainFlavor(name);
  for (const TitanNamed& named : kTitanNamed) {
    if (named.name != plain) continue;
    return absl::StrCat("model.name=", ToAbsl(named.model), " model.flavor=", ToAbsl(named.flavor),
                        " ", ToAbsl(named.settings), ToAbsl(more));
  }
  return std::nullopt;
}

std::string NearestTitanNamed(std::string_view name, std::string_view model) {
  std::vector<std::string> names;
  for (const TitanNamed& named : kTitanNamed) {
    if (model.empty() || named.model == model) names.emplace_back(named.name);
  }
  return Nearest(name, names);
}

}  // namespace oneflow::foreign
