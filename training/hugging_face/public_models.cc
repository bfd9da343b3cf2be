#include "training/hugging_face/public_models.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/model/families.h"

namespace oneflow {
namespace {

// Words of a name that do not change the shape: what the weights were tuned for, and when.
constexpr std::string_view kTuning[] = {
    "instruct", "base",  "hf",   "chat", "it",   "pt",      "meta", "preview", "thinking",
    "math",     "coder", "fp8",  "bf16", "awq",  "deduped", "2407", "2411",    "2501",
    "2506",     "2507",  "1124", "0325", "0528", "0324",    "1m",   "v1.0",    "intermediate",
    "step",     "1431k", "3t",   "16e",  "128e", "early",   "v1",   "0425",    "1025",
    "1125",     "think", "sft",  "dpo",  "rlvr"};

// Names whose shape is that of another, in the form of Normalize.
struct Alias {
  std::string_view name, preset;
};
constexpr Alias kAliases[] = {
    {"gpt2", "gpt2-124m"},
    {"gpt2small", "gpt2-124m"},
    {"gpt2medium", "gpt2-350m"},
    {"gpt2large", "gpt2-774m"},
    {"gpt2xl", "gpt2-1.5b"},
    {"llama3.370b", "llama3.1-70b"},
    {"deepseekr1distillllama8b", "llama3.1-8b"},
    {"deepseekr1distillllama70b", "llama3.1-70b"},
    {"deepseekr1distillqwen7b", "qwen2.5-7b"},
    {"deepseekr1distillqwen14b", "qwen2.5-14b"},
    {"deepseekr1distillqwen32b", "qwen2.5-32b"},
    {"qwq32b", "qwen2.5-32b"},
    {"qwen20.5b", "qwen2.5-0.5b"},
    {"qwen21.5b", "qwen2.5-1.5b"},
    {"qwen27b", "qwen2.5-7b"},
    {"qwen272b", "qwen2.5-72b"},
    {"mistral7bv0.1", "mistral-7b"},
    {"mixtral8x7bv0.1", "mixtral-8x7b"},
    {"mixtral8x22bv0.1", "mixtral-8x22b"},
    {"mistralnemo", "mistral-nemo-12b"},
    {"mistralsmall24b", "mistral-small-24b"},
    {"mistrallarge", "mistral-large-123b"},
    {"qwen3480ba35b", "qwen3-480b-a35b"},
    {"smollm135m", "smollm2-135m"},
    {"smollm360m", "smollm2-360m"},
    {"smollm1.7b", "smollm2-1.7b"},
    {"yi1.56b", "yi-6b"},
    {"yi1.534b", "yi-34b"},
    {"deepseekllm7b", "deepseek-7b"},
    {"deepseekllm67b", "deepseek-67b"},
};
constexpr Alias kConfigAliases[] = {
    {"deepseekr1", "deepseek-v3"},
    {"deepseekv3.1", "deepseek-v3"},
    {"gptj6b", "gpt-j-6b"},
};

// "meta-llama/Llama-3.1-8B-Instruct" and "llama3.1-8b" are both "llama3.18b".
std::string Normalize(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash != name.npos) name.remove_prefix(slash + 1);
  const std::string lower = absl::AsciiStrToLower(ToAbsl(name));
  std::string result;
  for (const absl::string_view word : absl::StrSplit(lower, absl::ByAnyChar("-_ "))) {
    const bool tuned =
        std::find(std::begin(kTuning), std::end(kTuning), ToStd(word)) != std::end(kTuning);
    if (!tuned) absl::StrAppend(&result, word);
  }
  return result;
}

// The name that a table of aliases has for it; itself where there is none.
template <size_t kSize>
std::string Resolve(std::string_view name, const Alias (&aliases)[kSize]) {
  const std::string plain = Normalize(name);
  for (const Alias& alias : aliases) {
    if (alias.name == plain) return Normalize(alias.preset);
  }
  return plain;
}

}  // namespace

std::optional<PublicModel> FindPublicModel(std::string_view name) {
  const std::string plain = Resolve(name, kAliases);
  for (const bool exactly : {true, false}) {
    for (const Family& family : Families()) {
      for (const Preset& preset : family.presets) {
        if (exactly ? preset.name == name : Normalize(preset.name) == plain) {
          return PublicModel{std::string(family.name), preset.name};
        }
      }
    }
  }
  return std::nullopt;
}

const PublicConfig* FindPublicConfig(std::string_view name) {
  const std::string plain = Resolve(name, kConfigAliases);
  for (const PublicConfig& config : PublicConfigs()) {
    if (Normalize(config.name) == plain) return &config;
  }
  return nullptr;
}

std::string NearestPublicModel(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash != name.npos) name.remove_prefix(slash + 1);
  std::vector<std::string> names;
  for (const Family& family : Families()) {
    for (const Preset& preset : family.presets) names.push_back(preset.name);
  }
  for (const PublicConfig& config : PublicConfigs()) names.emplace_back(config.name);
  return Nearest(name, names);
}

}  // namespace oneflow
