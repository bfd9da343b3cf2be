// The numbers of published models, as their config.json has them.
#include <utility>

#include "oneflow_core/model/llama.h"

namespace oneflow {
namespace {

// Frequencies of models that were trained on 8192 positions and then on more.
constexpr RotaryOptions::Scaling kBy8 = {8, 1, 4, 8192}, kBy32 = {32, 1, 4, 8192};

std::vector<LlamaConfig> Presets() {
  const auto config = [](const char* name, int64_t layers, int64_t hidden, int64_t inner,
                         int64_t heads, int64_t groups, int64_t head_dim) {
    LlamaConfig c;
    c.name = name, c.layers = layers, c.hidden = hidden, c.inner = inner, c.heads = heads;
    c.groups = groups, c.head_dim = head_dim, c.tied = false;
    return c;
  };
  std::vector<LlamaConfig> all;
  const auto ours = [&](LlamaConfig c, int64_t sequence, int64_t vocab) {
    c.sequence = sequence, c.vocab = vocab, c.tied = true;
    all.push_back(std::move(c));
  };
  const auto llama2 = [&](LlamaConfig c) {
    c.sequence = 4096, c.vocab = 32000;
    all.push_back(std::move(c));
  };
  const auto llama3 = [&](LlamaConfig c, std::optional<RotaryOptions::Scaling> scaling = {},
                          bool tied = false) {
    c.sequence = scaling ? 131072 : 8192, c.vocab = 128256, c.theta = 500000;
    c.scaling = scaling, c.tied = tied;
    all.push_back(std::move(c));
  };
  const auto mistral = [&](LlamaConfig c) {
    c.sequence = 32768, c.vocab = 32000, c.window = 4096;
    all.push_back(std::move(c));
  };
  const auto qwen25 = [&](LlamaConfig c, bool small, double epsilon) {
    c.sequence = small ? 32768 : 131072, c.vocab = small ? 151936 : 152064, c.theta = 1000000;
    c.epsilon = epsilon, c.tied = small, c.qkv_bias = true;
    all.push_back(std::move(c));
  };
  const auto qwen3 = [&](LlamaConfig c, bool tied) {
    c.sequence = 40960, c.vocab = 151936, c.theta = 1000000, c.epsilon = 1e-6;
    c.tied = tied, c.qk_norm = true;
    all.push_back(std::move(c));
  };
  const auto mixtral = [&](LlamaConfig c, int64_t sequence) {
    c.sequence = sequence, c.vocab = 32000, c.theta = 1000000;
    c.experts = 8, c.choices = 2;
    all.push_back(std::move(c));
  };
  const auto qwen3_moe = [&](LlamaConfig c) {
    c.experts = 128, c.choices = 8;
    qwen3(std::move(c), /*tied=*/false);
  };
  // name, layers, hidden, inner, heads, groups, head_dim
  ours(config("llama-tiny", 2, 32, 128, 4, 2, 8), 16, 256);
  ours(config("llama-small", 4, 128, 384, 4, 2, 32), 64, 256);
  ours(config("llama-124m", 12, 768, 2432, 12, 4, 64), 1024, 50257);
  llama2(config("llama2-7b", 32, 4096, 11008, 32, 32, 128));
  llama2(config("llama2-13b", 40, 5120, 13824, 40, 40, 128));
  llama2(config("llama2-70b", 80, 8192, 28672, 64, 8, 128));
  llama3(config("llama3-8b", 32, 4096, 14336, 32, 8, 128));
  llama3(config("llama3-70b", 80, 8192, 28672, 64, 8, 128));
  llama3(config("llama3.1-8b", 32, 4096, 14336, 32, 8, 128), kBy8);
  llama3(config("llama3.1-70b", 80, 8192, 28672, 64, 8, 128), kBy8);
  llama3(config("llama3.1-405b", 126, 16384, 53248, 128, 8, 128), kBy8);
  llama3(config("llama3.2-1b", 16, 2048, 8192, 32, 8, 64), kBy32, /*tied=*/true);
  llama3(config("llama3.2-3b", 28, 3072, 8192, 24, 8, 128), kBy32, /*tied=*/true);
  mistral(config("mistral-7b", 32, 4096, 14336, 32, 8, 128));
  mixtral(config("mixtral-8x7b", 32, 4096, 14336, 32, 8, 128), 32768);
  mixtral(config("mixtral-8x22b", 56, 6144, 16384, 48, 8, 128), 65536);
  qwen25(config("qwen2.5-0.5b", 24, 896, 4864, 14, 2, 64), /*small=*/true, 1e-6);
  qwen25(config("qwen2.5-1.5b", 28, 1536, 8960, 12, 2, 128), /*small=*/true, 1e-6);
  qwen25(config("qwen2.5-3b", 36, 2048, 11008, 16, 2, 128), /*small=*/true, 1e-6);
  qwen25(config("qwen2.5-7b", 28, 3584, 18944, 28, 4, 128), /*small=*/false, 1e-6);
  qwen25(config("qwen2.5-14b", 48, 5120, 13824, 40, 8, 128), /*small=*/false, 1e-5);
  qwen25(config("qwen2.5-32b", 64, 5120, 27648, 40, 8, 128), /*small=*/false, 1e-5);
  qwen3(config("qwen3-0.6b", 28, 1024, 3072, 16, 8, 128), /*tied=*/true);
  qwen3(config("qwen3-1.7b", 28, 2048, 6144, 16, 8, 128), /*tied=*/true);
  qwen3(config("qwen3-4b", 36, 2560, 9728, 32, 8, 128), /*tied=*/true);
  qwen3(config("qwen3-8b", 36, 4096, 12288, 32, 8, 128), /*tied=*/false);
  qwen3(config("qwen3-14b", 40, 5120, 17408, 40, 8, 128), /*tied=*/false);
  qwen3(config("qwen3-32b", 64, 5120, 25600, 64, 8, 128), /*tied=*/false);
  qwen3_moe(config("qwen3-30b-a3b", 48, 2048, 768, 32, 4, 128));
  qwen3_moe(config("qwen3-235b-a22b", 94, 4096, 1536, 64, 4, 128));
  return all;
}

}  // namespace

std::vector<std::string> LlamaPresets() {
  std::vector<std::string> names;
  for (const LlamaConfig& preset : Presets()) names.push_back(preset.name);
  return names;
}

absl::StatusOr<LlamaConfig> LlamaPreset(std::string_view name) {
  for (LlamaConfig& preset : Presets()) {
    if (name == preset.name) return std::move(preset);
  }
  return UnknownPreset(name, LlamaPresets());
}

}  // namespace oneflow
