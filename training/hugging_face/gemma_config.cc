// config.json of Gemma 2 and 3.
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/model/block_lists.h"
#include "training/hugging_face/decoder_config.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

constexpr double kGemmaTheta = 10000, kGemma3Theta = 1000000;
constexpr const char *kAttentionCap = "attn_logit_softcapping",
                     *kLogitCap = "final_logit_softcapping";
constexpr char kGemma2Defaults[] = R"({"vocab_size":256000,"num_hidden_layers":26,
    "hidden_size":2304,"intermediate_size":9216,"num_attention_heads":8,"num_key_value_heads":4,
    "head_dim":256,"max_position_embeddings":8192,"rms_norm_eps":1e-6,"tie_word_embeddings":true,
    "query_pre_attn_scalar":256,"sliding_window":4096,"attn_logit_softcapping":50.0,
    "final_logit_softcapping":30.0})";
constexpr char kGemma3Defaults[] = R"({"vocab_size":262208,"num_hidden_layers":26,
    "hidden_size":2304,"intermediate_size":9216,"num_attention_heads":8,"num_key_value_heads":4,
    "head_dim":256,"max_position_embeddings":131072,"rms_norm_eps":1e-6,"tie_word_embeddings":true,
    "query_pre_attn_scalar":256,"sliding_window":4096})";

// Which layers see all positions where "layer_types" is absent: the last of each `period`.
std::vector<bool> WindowsBut(size_t layers, size_t period) {
  std::vector<bool> windows(layers);
  for (size_t i = 0; i < layers; ++i) windows[i] = (i + 1) % period != 0;
  return windows;
}

double ReadCap(ConfigFields& fields, const char* key) {
  const double cap = fields.Has(key) ? fields.Number(key) : 0;
  if (fields.Has(key) && cap == 0) fields.Refuse(key, "is not above 0", "write null for no cap");
  return cap;
}

ModelType::Json CapJson(double cap) {
  return cap > 0 ? ModelType::Json(cap) : ModelType::Json(nullptr);
}

void ReadGemma(ConfigFields& fields, proto::Model& model) {
  ReadSizes(fields, model);
  // In bf16 transformers rounds the root to it.
  model.set_embedding_scale(std::sqrt(static_cast<double>(model.hidden())));
  const double scalar = fields.Number("query_pre_attn_scalar");
  if (scalar <= 0) fields.Refuse("query_pre_attn_scalar", "is not above 0");
  model.set_attention_scale(1 / std::sqrt(scalar));
  model.set_logit_cap(ReadCap(fields, kLogitCap));
  ReadAttentionBias(fields, model);
  fields.Require("hidden_activation", "gelu_pytorch_tanh");
  fields.Require("use_bidirectional_attention", false);
}

void ReadGemma2(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  ReadGemma(fields, model);
  model.set_attention_cap(ReadCap(fields, kAttentionCap));
  ReadRotary(fields, kGemmaTheta, model);
  std::vector<proto::Model> own = ListOwnNumbers(model);
  std::vector<bool> windows = WindowsBut(own.size(), 2);
  ReadLayerTypes(fields, windows);
  const int64_t window = ReadWindowSize(fields, windows);
  for (size_t i = 0; i < own.size(); ++i) {
    if (windows[i]) own[i].set_window(window);
  }
  SetBlocks(own, &model);
}

// Layers with a window have their own theta, and no scaling. Releases of transformers have a cap of
// attention in the configuration, and compute without it.
void ReadGemma3(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  ReadGemma(fields, model);
  if (config.model_type == "gemma3" && fields.Has(kLogitCap)) {
    fields.Refuse(kLogitCap, "is not read by the class for text and images of transformers",
                  "use the text part, a gemma3_text");
  }
  model.set_qk_norm(true);
  proto::Model local = model;
  ReadRotary(fields, kGemma3Theta, model, "full_attention");
  ReadWindowRotary(fields, "rope_local_base_freq", kGemmaTheta, local);
  std::vector<proto::Model> own = ListOwnNumbers(model);
  const int64_t period = fields.Size("sliding_window_pattern", 6);
  std::vector<bool> windows = WindowsBut(own.size(), static_cast<size_t>(period));
  ReadLayerTypes(fields, windows);
  local.set_window(ReadWindowSize(fields, windows));
  const proto::Model of_local = ListChanges(model, local);
  for (size_t i = 0; i < own.size(); ++i) {
    if (windows[i]) own[i] = of_local;
  }
  SetBlocks(own, &model);
}

void WriteGemma(const proto::Model& model, ModelType::Json& json) {
  json["hidden_activation"] = "gelu_pytorch_tanh";
  WriteSizes(model, json);
  const double scale = model.attention_scale();
  // Releases 5 of transformers take whole numbers alone.
  json["query_pre_attn_scalar"] = scale > 0 ? std::llround(1 / (scale * scale)) : model.head_dim();
  json[kLogitCap] = CapJson(model.logit_cap());
  json["attention_bias"] = model.qkv_bias() && model.proj_bias();
  WriteWindows(model, json);
}

void WriteGemma2(const HuggingFaceConfig& config, ModelType::Json& json) {
  WriteGemma(config.model, json);
  json[kAttentionCap] = CapJson(config.model.attention_cap());
  WriteRotary(config.model, json);
}

void WriteGemma3(const HuggingFaceConfig& config, ModelType::Json& json) {
  WriteGemma(config.model, json);
  const proto::Model full = FindBlock(config.model, false), local = FindBlock(config.model, true);
  WriteRotary(full, json);
  json["rope_local_base_freq"] = local.theta();
  // Which releases 4 of transformers cannot have.
  if (local.rope_scaling().factor() > 0) json["rope_parameters"] = RopeParametersJson(full, local);
}

}  // namespace

std::vector<ModelType> GemmaTypes() {
  return {{.name = "gemma2",
           .architecture = "Gemma2ForCausalLM",
           .family = "gemma",
           .defaults = kGemma2Defaults,
           .read = ReadGemma2,
           .write = WriteGemma2,
           .files = GemmaFiles},
          {.name = "gemma3_text",
           .architecture = "Gemma3ForCausalLM",
           .family = "gemma",
           .defaults = kGemma3Defaults,
           .read = ReadGemma3,
           .write = WriteGemma3,
           .files = GemmaFiles},
          {.name = "gemma3",
           .architecture = "Gemma3ForCausalLM",
           .family = "gemma",
           .defaults = kGemma3Defaults,
           .read = ReadGemma3,
           .write = WriteGemma3,
           .files = GemmaFiles,
           .written_as = "gemma3_text"}};
}

}  // namespace oneflow
