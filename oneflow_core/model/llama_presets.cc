// The numbers of published models, as their config.json has them.
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "oneflow_core/model/llama.h"

namespace oneflow {
namespace {

// What the models of a series share.
constexpr char kTiny[] = "sequence: 16 vocab: 256", kSmall[] = "sequence: 64 vocab: 256",
               kLlama2[] = "tied: false sequence: 4096 vocab: 32000",
               kLlama3[] = "tied: false sequence: 8192 vocab: 128256 theta: 500000",
               kLlama31[] =
                   "tied: false sequence: 131072 vocab: 128256 theta: 500000 "
                   "rope_scaling { factor: 8 low: 1 high: 4 positions: 8192 }",
               kLlama32[] =
                   "sequence: 131072 vocab: 128256 theta: 500000 "
                   "rope_scaling { factor: 32 low: 1 high: 4 positions: 8192 }",
               kSmolLm2[] = "sequence: 8192 vocab: 49152",
               kMistral[] = "tied: false sequence: 32768",
               kYi[] = "tied: false sequence: 4096 vocab: 64000 theta: 5000000",
               kDeepSeek[] = "tied: false sequence: 4096 vocab: 102400 norm_epsilon: 1e-6",
               kMixtral[] = "tied: false vocab: 32000 theta: 1000000 experts: 8",
               kQwen25Small[] =
                   "sequence: 32768 vocab: 151936 theta: 1000000 qkv_bias: true "
                   "norm_epsilon: 1e-6",
               kQwen25[] =
                   "tied: false sequence: 131072 vocab: 152064 theta: 1000000 "
                   "qkv_bias: true",
               kQwen3Small[] =
                   "sequence: 40960 vocab: 151936 theta: 1000000 norm_epsilon: 1e-6 "
                   "qk_norm: true",
               kQwen3[] =
                   "tied: false sequence: 40960 vocab: 151936 theta: 1000000 "
                   "norm_epsilon: 1e-6 qk_norm: true",
               kQwen3Moe[] =
                   "tied: false sequence: 40960 vocab: 151936 theta: 1000000 "
                   "norm_epsilon: 1e-6 qk_norm: true experts: 128 experts_per_token: 8",
               kQwen3Coder[] =
                   "tied: false sequence: 262144 vocab: 151936 theta: 10000000 "
                   "norm_epsilon: 1e-6 qk_norm: true experts: 160 experts_per_token: 8";

Preset Published(const char* name, int layers, int hidden, int inner, int heads, int groups,
                 int head_dim, const char* series, const char* own = "") {
  return {name, absl::StrFormat("layers: %d hidden: %d inner: %d heads: %d groups: %d head_dim: %d "
                                "%s %s",
                                layers, hidden, inner, heads, groups, head_dim, series, own)};
}

}  // namespace

std::vector<Preset> LlamaPresets() {
  // name, layers, hidden, inner, heads, groups, head_dim
  return {
      Published("llama-tiny", 2, 32, 128, 4, 2, 8, kTiny),
      Published("llama-small", 4, 128, 384, 4, 2, 32, kSmall),
      {"llama-124m", ""},
      Published("llama2-7b", 32, 4096, 11008, 32, 32, 128, kLlama2),
      Published("llama2-13b", 40, 5120, 13824, 40, 40, 128, kLlama2),
      Published("llama2-70b", 80, 8192, 28672, 64, 8, 128, kLlama2),
      Published("llama3-8b", 32, 4096, 14336, 32, 8, 128, kLlama3),
      Published("llama3-70b", 80, 8192, 28672, 64, 8, 128, kLlama3),
      Published("llama3.1-8b", 32, 4096, 14336, 32, 8, 128, kLlama31),
      Published("llama3.1-70b", 80, 8192, 28672, 64, 8, 128, kLlama31),
      Published("llama3.1-405b", 126, 16384, 53248, 128, 8, 128, kLlama31),
      Published("llama3.2-1b", 16, 2048, 8192, 32, 8, 64, kLlama32),
      Published("llama3.2-3b", 28, 3072, 8192, 24, 8, 128, kLlama32),
      Published("tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64,
                "tied: false sequence: 2048 vocab: 32000"),
      Published("smollm2-135m", 30, 576, 1536, 9, 3, 64, kSmolLm2, "theta: 100000"),
      Published("smollm2-360m", 32, 960, 2560, 15, 5, 64, kSmolLm2, "theta: 100000"),
      Published("smollm2-1.7b", 24, 2048, 8192, 32, 32, 64, kSmolLm2, "theta: 130000"),
      Published("smollm3-3b", 36, 2048, 11008, 16, 4, 128,
                "sequence: 65536 vocab: 128256 theta: 5000000 norm_epsilon: 1e-6",
                "blocks { classes { name: 'rotary' } "
                "classes { name: 'plain' numbers { rotary_share: 0 } } "
                "run { count: 3 index: 0 } run { count: 1 index: 1 } }"),
      Published("yi-6b", 32, 4096, 11008, 32, 4, 128, kYi),
      Published("yi-34b", 60, 7168, 20480, 56, 8, 128, kYi),
      Published("deepseek-7b", 30, 4096, 11008, 32, 32, 128, kDeepSeek),
      Published("deepseek-67b", 95, 8192, 22016, 64, 8, 128, kDeepSeek),
      Published("phi-4", 40, 5120, 17920, 40, 10, 128,
                "tied: false sequence: 16384 vocab: 100352 theta: 250000"),
      Published("mistral-7b", 32, 4096, 14336, 32, 8, 128, kMistral, "vocab: 32000 window: 4096"),
      Published("mistral-7b-v0.2", 32, 4096, 14336, 32, 8, 128, kMistral,
                "vocab: 32000 theta: 1000000"),
      Published("mistral-7b-v0.3", 32, 4096, 14336, 32, 8, 128, kMistral,
                "vocab: 32768 theta: 1000000"),
      Published("mistral-nemo-12b", 40, 5120, 14336, 32, 8, 128,
                "tied: false sequence: 131072 vocab: 131072 theta: 1000000"),
      Published("mistral-small-24b", 40, 5120, 32768, 32, 8, 128, kMistral,
                "vocab: 131072 theta: 100000000"),
      Published("mistral-large-123b", 88, 12288, 28672, 96, 8, 128,
                "tied: false sequence: 131072 vocab: 32768 theta: 1000000"),
      Published("mixtral-8x7b", 32, 4096, 14336, 32, 8, 128, kMixtral, "sequence: 32768"),
      Published("mixtral-8x22b", 56, 6144, 16384, 48, 8, 128, kMixtral, "sequence: 65536"),
      Published("qwen2.5-0.5b", 24, 896, 4864, 14, 2, 64, kQwen25Small),
      Published("qwen2.5-1.5b", 28, 1536, 8960, 12, 2, 128, kQwen25Small),
      Published("qwen2.5-3b", 36, 2048, 11008, 16, 2, 128, kQwen25Small),
      Published("qwen2.5-7b", 28, 3584, 18944, 28, 4, 128, kQwen25, "norm_epsilon: 1e-6"),
      Published("qwen2.5-14b", 48, 5120, 13824, 40, 8, 128, kQwen25),
      Published("qwen2.5-32b", 64, 5120, 27648, 40, 8, 128, kQwen25),
      Published("qwen2.5-72b", 80, 8192, 29568, 64, 8, 128, kQwen25),
      Published("qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, kQwen3Small),
      Published("qwen3-1.7b", 28, 2048, 6144, 16, 8, 128, kQwen3Small),
      Published("qwen3-4b", 36, 2560, 9728, 32, 8, 128, kQwen3Small),
      Published("qwen3-8b", 36, 4096, 12288, 32, 8, 128, kQwen3),
      Published("qwen3-14b", 40, 5120, 17408, 40, 8, 128, kQwen3),
      Published("qwen3-32b", 64, 5120, 25600, 64, 8, 128, kQwen3),
      Published("qwen3-30b-a3b", 48, 2048, 768, 32, 4, 128, kQwen3Moe),
      Published("qwen3-235b-a22b", 94, 4096, 1536, 64, 4, 128, kQwen3Moe),
      Published("qwen3-480b-a35b", 62, 6144, 2560, 96, 8, 128, kQwen3Coder)};
}

}  // namespace oneflow
