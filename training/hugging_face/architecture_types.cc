// The types of config.json that are known, with the defaults of transformers and what no usual key
// says.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "training/hugging_face/architecture_reader.h"

namespace oneflow {
namespace {

using Reader = ArchitectureReader;
using Json = ConfigFields::Json;
using Norm = Architecture::Norm;
using Positions = Architecture::Positions;
using QkNorm = Architecture::QkNorm;

void Nothing(Reader& /*r*/) {}

// Layer norms, and an MLP without a gate: before rotary models, and after.
void BeginLayerNorms(Reader& r) {
  r.a.norm = Norm::kLayer;
  r.a.gated = false;
  r.a.activation = kGptActivation;
}
void AllBiases(Reader& r, bool biased) { r.a.qkv_bias = r.a.proj_bias = r.a.mlp_bias = biased; }

// One norm for both branches.
void MakeParallel(Reader& r, int64_t norms = 1) {
  r.a.parallel = true;
  r.a.block_norms = norms;
}

void Scaled(Reader& r) {
  r.DifferIfNot("embedding_multiplier", 1, "embeddings times", "1");
  r.DifferIfNot("logits_scaling", 1, "logits divided by", "1");
  r.DifferIfNot("logit_scale", 1, "logits times", "1");
  r.DifferIfNot("residual_multiplier", 1, "branches times", "1");
  if (r.Has({"attention_multiplier"})) r.Differ("scores times a factor of the file, here usual");
}

// GPT-2 and its like.
void BeginGpt2(Reader& r) {
  BeginLayerNorms(r);
  AllBiases(r, true);
  r.a.positions = Positions::kLearned;
  r.a.sequence = 1024;
  r.a.tied = true;
}
void EndGpt2(Reader& r) {
  r.a.learned_rows = r.a.sequence;
  if (r.Bool({"scale_attn_by_inverse_layer_idx"}, false)) {
    r.Differ("scores divided by the number of the layer, here not");
  }
  if (!r.Bool({"scale_attn_weights"}, true)) r.Differ("scores that are not scaled, here scaled");
}
void EndBigCode(Reader& r) {
  EndGpt2(r);
  if (r.Bool({"multi_query"}, true)) r.a.groups = 1;
}
void EndGptNeo(Reader& r) {
  EndGpt2(r);
  r.a.qkv_bias = false;
  r.a.window = r.Size({"window_size"}, 256);
  r.a.windowed_layers = r.a.layers / 2;
  if (const auto local = r.CountInList("attention_layers", "local")) r.a.windowed_layers = *local;
  r.Differ("scores that are not scaled, here scaled");
}

void BeginNeoX(Reader& r) {
  BeginLayerNorms(r);
  AllBiases(r, true);
  r.a.activation = "gelu";
  r.a.rotary_share = 0.25;
}
void EndNeoX(Reader& r) {
  r.a.proj_bias = r.a.qkv_bias;
  if (r.Bool({"use_parallel_residual"}, true)) MakeParallel(r, 2);
}

void BeginGptJ(Reader& r) {
  BeginLayerNorms(r);
  r.a.mlp_bias = r.a.head_bias = true;
  MakeParallel(r);
}
void EndGptJ(Reader& r) {
  r.a.rotary_share =
      static_cast<double>(r.Size({"rotary_dim"}, 64)) / static_cast<double>(r.a.head_dim);
}

void BeginOpt(Reader& r) {
  BeginGpt2(r);
  r.a.sequence = 2048;
  r.a.activation = "relu";
}
void EndOpt(Reader& r) {
  r.a.learned_rows = r.a.sequence + 2;
  AllBiases(r, r.Bool({"enable_bias"}, true));
  r.a.activation = r.String({"activation_function"}, "relu");
  if (!r.Bool({"do_layer_norm_before"}, true)) r.a.norms_after = true, r.a.final_norm = false;
  if (!r.Bool({"layer_norm_elementwise_affine"}, true)) r.a.norm = Norm::kWithoutWeights;
  const int64_t width = r.Size({"word_embed_proj_dim"}, r.a.hidden);
  if (width != r.a.hidden) r.a.embedding_width = width;
}

void BeginBloom(Reader& r) {
  BeginLayerNorms(r);
  AllBiases(r, true);
  r.a.positions = Positions::kAlibi;
  r.a.embedding_norm = true;
  r.a.tied = true;
}

void BeginMpt(Reader& r) {
  BeginLayerNorms(r);
  r.a.activation = "gelu";
  r.a.norm = Norm::kLayerWithoutBias;
  r.a.positions = Positions::kAlibi;
  r.a.tied = true;
}
void EndMpt(Reader& r) {
  r.a.inner = r.Size({"expansion_ratio"}, 4) * r.a.hidden;
  const Json* attention = r.fields.Find("attn_config");
  if (attention == nullptr || !attention->is_object()) return;
  if (attention->value("alibi", Json(true)) == false) {
    r.a.positions = Positions::kLearned;
    r.a.learned_rows = r.a.sequence;
  }
  if (const auto clip = attention->find("clip_qkv");
      clip != attention->end() && clip->is_number()) {
    r.Differ("queries, keys and values that are clipped, here not");
  }
  if (attention->value("qk_ln", Json(false)) == true) r.a.qk_norm = QkNorm::kOfAllHeads;
  if (const auto groups = attention->find("kv_n_heads");
      groups != attention->end() && groups->is_number_unsigned()) {
    r.a.groups = std::max<int64_t>(groups->get<int64_t>(), 1);
  }
}

void BeginFalcon(Reader& r) {
  BeginLayerNorms(r);
  r.a.activation = "gelu";
  r.a.tied = true;
}
void EndFalcon(Reader& r) {
  const bool newer = r.Bool({"new_decoder_architecture"}, false);
  if (!newer) r.a.groups = r.Bool({"multi_query"}, true) ? 1 : r.a.heads;
  if (newer || r.Bool({"parallel_attn"}, true)) {
    MakeParallel(r, r.Size({"num_ln_in_parallel_attn"}, newer ? 2 : 1));
  }
  AllBiases(r, r.Bool({"bias"}, false));
  if (r.Bool({"alibi"}, false)) r.a.positions = Positions::kAlibi;
}

void BeginPhi(Reader& r) {
  BeginLayerNorms(r);
  AllBiases(r, true);
  r.a.head_bias = true;
  r.a.rotary_share = 0.5;
  MakeParallel(r);
}
void EndPhi(Reader& r) { r.a.proj_bias = r.a.qkv_bias; }

void BeginPhiMoe(Reader& r) {
  r.a.norm = Norm::kLayer;
  r.a.scores = "sparse mixing of Phi";
}
void EndPhiMoe(Reader& r) {
  r.a.proj_bias = r.a.qkv_bias;
  r.a.head_bias = r.Bool({"lm_head_bias"}, false);
}

void BeginGemma(Reader& r) {
  r.a.activation = kGptActivation;
  r.a.head_dim = 256;
  r.a.tied = true;
  r.a.norm_offset = 1;
}
void EndGemma(Reader& r) { r.a.embedding_scale = std::sqrt(static_cast<double>(r.a.hidden)); }
void BeginGemma2(Reader& r) {
  BeginGemma(r);
  r.a.block_norms = 4;
}
void EndGemma2(Reader& r) {
  EndGemma(r);
  if (r.a.windowed_layers < 0) r.a.windowed_layers = (r.a.layers + 1) / 2;
  r.a.attention_cap = r.Number({"attn_logit_softcapping"}, 0);
  r.a.logit_cap = r.Number({"final_logit_softcapping"}, 0);
  r.a.attention_scale = 1 / std::sqrt(r.Number({"query_pre_attn_scalar"}, 256));
}
void BeginGemma3(Reader& r) {
  BeginGemma2(r);
  r.a.qk_norm = QkNorm::kOfHead;
  // Defaults of the family, which the text part of some files leaves out.
  r.a.theta = 1000000;
  r.a.sequence = 131072;
}
void EndGemma3(Reader& r) {
  const int64_t period = r.Size({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  if (r.a.windowed_layers < 0) r.a.windowed_layers = r.a.layers - r.a.layers / period;
  EndGemma2(r);
  r.a.window_theta = r.Number({"rope_local_base_freq"}, 10000);
  r.a.windows_unscaled = true;
}

void BeginOlmo(Reader& r) { r.a.norm = Norm::kWithoutWeights; }
void EndOlmo(Reader& r) {
  r.DifferIfNot("clip_qkv", 0, "queries, keys and values clipped at", "not");
}
void BeginOlmo2(Reader& r) {
  r.a.norms_after = true;
  r.a.qk_norm = QkNorm::kOfAllHeads;
}
void EndOlmo3(Reader& r) {
  r.a.windows_unscaled = true;
  if (r.a.window > 0 && r.a.windowed_layers < 0) {
    r.a.windowed_layers = r.a.layers - r.a.layers / 4;
  }
}
void BeginOlmoe(Reader& r) {
  r.a.qk_norm = QkNorm::kOfAllHeads;
  r.a.norm_topk_prob = false;
}

void BeginStarcoder2(Reader& r) {
  BeginLayerNorms(r);
  r.a.tied = true;
}
void EndStarcoder2(Reader& r) { AllBiases(r, r.Bool({"use_bias"}, true)); }

void BeginStableLm(Reader& r) {
  r.a.norm = Norm::kLayer;
  r.a.rotary_share = 0.25;
}
void EndStableLm(Reader& r) {
  if (r.a.qk_norm != QkNorm::kNone) r.a.qk_norm = QkNorm::kOfAllHeads;
  if (r.Bool({"use_parallel_residual"}, false)) MakeParallel(r);
}

void BeginCohere(Reader& r) {
  r.a.norm = Norm::kLayerWithoutBias;
  r.a.tied = true;
  MakeParallel(r);
}
void EndCohere(Reader& r) {
  if (r.a.qk_norm != QkNorm::kNone) r.a.qk_norm = QkNorm::kOfAllHeads;
  Scaled(r);
}
void EndCohere2(Reader& r) {
  EndCohere(r);
  if (r.a.window == 0) return;
  const int64_t period = r.Size({"sliding_window_pattern", "_sliding_window_pattern"}, 4);
  if (r.a.windowed_layers < 0) r.a.windowed_layers = r.a.layers - r.a.layers / period;
  r.a.unrotated_layers = r.a.layers - r.a.windowed_layers;
}

void BeginGlm4Moe(Reader& r) {
  r.a.rotary_share = 0.5;
  r.a.head_dim = 128;
  r.a.scores = "sigmoid";
  r.a.moved_choices = true;
}
void BeginGlm(Reader& r) {
  r.a.rotary_share = 0.5;
  r.a.head_dim = 128;
  r.Differ("rotary pairs of neighbours, here of elements half of the rotated ones apart");
}
void EndGlm(Reader& r) { r.a.proj_bias = false; }
void BeginGlm4(Reader& r) {
  BeginGlm(r);
  r.a.block_norms = 4;
}
void BeginChatGlm(Reader& r) {
  BeginGlm(r);
  r.a.qkv_bias = true;
}
void EndChatGlm(Reader& r) {
  r.a.proj_bias = r.a.mlp_bias = r.Bool({"add_bias_linear"}, false);
  if (!r.Bool({"multi_query_attention"}, true)) r.a.groups = r.a.heads;
}

void BeginDeepSeek2(Reader& r) { r.a.norm_topk_prob = false; }
void BeginDeepSeek3(Reader& r) {
  r.a.scores = "sigmoid";
  r.a.moved_choices = true;
}
void EndDeepSeek32(Reader& r) {
  r.Differ("an indexer that chooses the keys of a query, which is not counted, here all keys");
}

void BeginGptOss(Reader& r) {
  AllBiases(r, true);
  r.a.sinks = r.a.router_bias = r.a.expert_bias = true;
}
void EndGptOss(Reader& r) {
  r.a.proj_bias = r.a.qkv_bias;
  r.a.mlp_bias = false;
  r.a.activation = kClampedActivation;
  if (r.a.windowed_layers < 0) r.a.windowed_layers = r.a.layers / 2;
}

void BeginLlama4(Reader& r) { r.a.scores = "sigmoid"; }
void EndLlama4(Reader& r) {
  Architecture& a = r.a;
  a.qk_norm = QkNorm::kNone;
  if (r.Bool({"use_qk_norm"}, true)) {
    r.Differ("norms of queries and keys without weights, here none");
  }
  a.shared_inner = a.expert_inner = a.inner;
  a.inner = r.Size({"intermediate_size_mlp"}, a.inner);
  const int64_t step = r.Size({"interleave_moe_layer_step"}, 1);
  a.dense_layers = a.layers - a.layers / step;
  if (const Json* layers = r.fields.Find(r.Name({"moe_layers"}));
      layers != nullptr && layers->is_array() && !layers->empty()) {
    a.dense_layers = a.layers - static_cast<int64_t>(layers->size());
  }
  // In "no_rope_layers" 1 is a layer with positions. Those without see all keys.
  a.unrotated_layers = a.layers / 4;
  if (const auto none = r.CountInList("no_rope_layers", 0)) a.unrotated_layers = *none;
  a.window = r.Count({"attention_chunk_size"}, 8192);
  a.windowed_layers = a.layers - a.unrotated_layers;
  r.Differ("weights of experts multiply what they read, here what they give");
}

void BeginQwen2(Reader& r) { r.a.qkv_bias = true; }
void EndQwen2(Reader& r) {
  Architecture& a = r.a;
  a.proj_bias = false;
  if (!r.Bool({"use_sliding_window"}, false)) a.window = 0;
  if (a.window > 0 && a.windowed_layers < 0) {
    a.windowed_layers = std::max<int64_t>(a.layers - r.Count({"max_window_layers"}, 28), 0);
  }
}
void EndQwen3(Reader& r) {
  const bool proj_bias = r.a.proj_bias;
  EndQwen2(r);
  r.a.proj_bias = proj_bias;
}
void BeginQwen2Moe(Reader& r) {
  BeginQwen2(r);
  r.a.norm_topk_prob = false;
  r.a.shared_gate = true;
}
void BeginQwen3(Reader& r) {
  r.a.qk_norm = QkNorm::kOfHead;
  r.a.head_dim = 128;
}
void BeginQwen3Moe(Reader& r) {
  r.a.qk_norm = QkNorm::kOfHead;
  r.a.norm_topk_prob = false;
}
void BeginQwenNext(Reader& r) {
  r.a.qk_norm = QkNorm::kOfHead;
  r.a.head_dim = 256;
  r.a.rotary_share = 0.25;
  r.a.gated_attention = true;
}
void EndQwenNext(Reader& r) {
  Architecture& a = r.a;
  a.shared_gate = a.experts > 0;
  if (!r.Has({"layer_types"})) {
    a.linear_layers = a.layers - a.layers / r.Size({"full_attention_interval"}, 4);
  }
  a.linear_key_heads = r.Size({"linear_num_key_heads"}, 16);
  a.linear_value_heads = r.Size({"linear_num_value_heads"}, 32);
  a.linear_key_dim = r.Size({"linear_key_head_dim"}, 128);
  a.linear_value_dim = r.Size({"linear_value_head_dim"}, 128);
  a.linear_kernel = r.Size({"linear_conv_kernel_dim"}, 4);
}

void BeginSmolLm3(Reader& r) { r.a.tied = true; }
void EndSmolLm3(Reader& r) {
  Architecture& a = r.a;
  if (!r.Bool({"use_sliding_window"}, false)) a.window = 0;
  a.unrotated_layers = a.layers / r.Size({"no_rope_layer_interval"}, 4);
  if (const auto none = r.CountInList("no_rope_layers", 0)) a.unrotated_layers = *none;
}

void BeginNemotron(Reader& r) {
  BeginLayerNorms(r);
  r.a.activation = "relu2";
  r.a.rotary_share = 0.5;
}

void BeginArcee(Reader& r) {
  r.a.gated = false;
  r.a.activation = "relu2";
}

void BeginExaone4(Reader& r) {
  r.a.norms_after = true;
  r.a.qk_norm = QkNorm::kOfHead;
}
// Layers without a window have no positions.
void EndExaone4(Reader& r) {
  EndOlmo3(r);
  r.a.windows_unscaled = false;
  if (r.a.window > 0) r.a.unrotated_layers = r.a.layers - r.a.windowed_layers;
}
void EndSeedOss(Reader& r) { r.a.proj_bias = r.Bool({"attention_out_bias"}, false); }

void BeginErnie(Reader& r) { r.a.tied = true; }
void EndErnie(Reader& r) {
  AllBiases(r, r.Bool({"use_bias"}, false));
  r.a.head_bias = r.Bool({"use_bias"}, false) && r.a.experts > 0;
}

void EndMistral(Reader& r) { r.a.proj_bias = r.a.qkv_bias = false; }
void BeginMixtral(Reader& r) { r.a.theta = 1000000; }
// A window in its file is one that its code does not read.
void EndLlama(Reader& r) { r.a.window = 0; }

struct KnownArchitecture {
  std::string_view name;
  void (*begin)(Reader&);
  void (*end)(Reader&);
};
constexpr KnownArchitecture kArchitectureTypes[] = {
    {"gpt2", BeginGpt2, EndGpt2},
    {"gpt_bigcode", BeginGpt2, EndBigCode},
    {"gpt_neo", BeginOpt, EndGptNeo},
    {"gpt_neox", BeginNeoX, EndNeoX},
    {"gptj", BeginGptJ, EndGptJ},
    {"codegen", BeginGptJ, EndGptJ},
    {"opt", BeginOpt, EndOpt},
    {"bloom", BeginBloom, Nothing},
    {"mpt", BeginMpt, EndMpt},
    {"falcon", BeginFalcon, EndFalcon},
    {"phi", BeginPhi, EndPhi},
    {"phi3", Nothing, Nothing},
    {"phimoe", BeginPhiMoe, EndPhiMoe},
    {"gemma", BeginGemma, EndGemma},
    {"gemma2", BeginGemma2, EndGemma2},
    {"gemma3_text", BeginGemma3, EndGemma3},
    {"gemma3", BeginGemma3, EndGemma3},
    {"olmo", BeginOlmo, EndOlmo},
    {"olmo2", BeginOlmo2, Nothing},
    {"olmo3", BeginOlmo2, EndOlmo3},
    {"olmoe", BeginOlmoe, EndOlmo},
    {"starcoder2", BeginStarcoder2, EndStarcoder2},
    {"stablelm", BeginStableLm, EndStableLm},
    {"cohere", BeginCohere, EndCohere},
    {"cohere2", BeginCohere, EndCohere2},
    {"granite", Nothing, Scaled},
    {"granitemoe", Nothing, Scaled},
    {"granitemoeshared", Nothing, Scaled},
    {"glm", BeginGlm, EndGlm},
    {"glm4", BeginGlm4, EndGlm},
    {"glm4_moe", BeginGlm4Moe, EndGlm},
    {"chatglm", BeginChatGlm, EndChatGlm},
    {"deepseek_v2", BeginDeepSeek2, Nothing},
    {"deepseek_v3", BeginDeepSeek3, Nothing},
    {"kimi_k2", BeginDeepSeek3, Nothing},
    {"deepseek_v32", BeginDeepSeek3, EndDeepSeek32},
    {"gpt_oss", BeginGptOss, EndGptOss},
    {"llama4", BeginLlama4, EndLlama4},
    {"llama4_text", BeginLlama4, EndLlama4},
    {"llama", Nothing, EndLlama},
    {"mistral", Nothing, EndMistral},
    {"mixtral", BeginMixtral, EndMistral},
    {"qwen2", BeginQwen2, EndQwen2},
    {"qwen2_moe", BeginQwen2Moe, EndQwen2},
    {"qwen3", BeginQwen3, EndQwen3},
    {"qwen3_moe", BeginQwen3Moe, EndQwen3},
    {"qwen3_next", BeginQwenNext, EndQwenNext},
    {"qwen3_5", BeginQwenNext, EndQwenNext},
    {"qwen3_5_text", BeginQwenNext, EndQwenNext},
    {"qwen3_5_moe", BeginQwenNext, EndQwenNext},
    {"qwen3_5_moe_text", BeginQwenNext, EndQwenNext},
    {"smollm3", BeginSmolLm3, EndSmolLm3},
    {"nemotron", BeginNemotron, EndPhi},
    {"exaone4", BeginExaone4, EndExaone4},
    {"seed_oss", BeginQwen2, EndSeedOss},
    {"ernie4_5", BeginErnie, EndErnie},
    {"arcee", BeginArcee, EndPhi},
};

const KnownArchitecture* FindKnownArchitecture(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kArchitectureTypes), std::end(kArchitectureTypes),
                   [&](const KnownArchitecture& type) { return type.name == name; });
  return found == std::end(kArchitectureTypes) ? nullptr : found;
}

}  // namespace

bool BeginType(const std::string& type, ArchitectureReader& reader) {
  const KnownArchitecture* known = FindKnownArchitecture(type);
  if (known != nullptr) known->begin(reader);
  return known != nullptr;
}

void EndType(const std::string& type, ArchitectureReader& reader) {
  if (const KnownArchitecture* known = FindKnownArchitecture(type); known != nullptr)
    known->end(reader);
}

}  // namespace oneflow
