// config.json of Llama, Mistral, Mixtral, Qwen and SmolLM.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/model/block_lists.h"
#include "training/hugging_face/decoder_config.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

using LlamaJson = ModelType::Json;

constexpr double kLlamaTheta = 10000, kMixtralTheta = 1000000, kSmolTheta = 2000000;
// Its default differs between releases of transformers.
constexpr const char* kWindow = "sliding_window";

// The layers whose attention is limited to a window: those of `windows`, but for what "layer_types"
// says. `uses`: the model looks at windows at all.
void ReadLlamaWindows(ConfigFields& fields, bool uses, std::vector<bool> windows,
                      std::vector<proto::Model>& own) {
  const bool listed = ReadLayerTypes(fields, windows);
  if (std::find(windows.begin(), windows.end(), true) == windows.end()) return;
  if (listed && !uses) {
    return fields.Refuse("layer_types", "has windows that the model does not use");
  }
  if (!fields.Contains(kWindow)) return fields.Refuse(kWindow, "is missing");
  if (!fields.Has(kWindow)) return;
  const int64_t window = fields.Size(kWindow);
  for (size_t i = 0; i < own.size(); ++i) {
    if (windows[i]) own[i].set_window(window);
  }
}

void ReadLikeLlama(ConfigFields& fields, double theta, proto::Model& model) {
  ReadSizes(fields, model);
  ReadRotary(fields, theta, model);
  fields.Require("hidden_act", "silu");
  fields.Require("mlp_bias", false);
}

void WriteLikeLlama(const proto::Model& model, LlamaJson& json) {
  json["hidden_act"] = "silu";
  WriteSizes(model, json);
  WriteRotary(model, json);
}

void ReadLlama(ConfigFields& fields, HuggingFaceConfig& config) {
  ReadLikeLlama(fields, kLlamaTheta, config.model);
  ReadAttentionBias(fields, config.model);
  std::vector<proto::Model> own = ListOwnNumbers(config.model);
  ReadLlamaWindows(fields, false, std::vector<bool>(own.size(), false), own);
}

void WriteLlama(const HuggingFaceConfig& config, LlamaJson& json) {
  WriteLikeLlama(config.model, json);
  json["mlp_bias"] = false;
  json["attention_bias"] = config.model.qkv_bias() && config.model.proj_bias();
}

// All layers have a window, or none, in classes of transformers that do not read "layer_types".
void ReadWindowOfAll(ConfigFields& fields, bool uses, proto::Model& model) {
  if (uses && !fields.Contains(kWindow)) return fields.Refuse(kWindow, "is missing");
  if (uses && fields.Has(kWindow)) model.set_window(fields.Size(kWindow));
  const std::vector<bool> windows(ListOwnNumbers(model).size(), model.window() > 0);
  std::vector<bool> listed = windows;
  if (ReadLayerTypes(fields, listed) && listed != windows) {
    fields.Refuse("layer_types",
                  model.window() > 0
                      ? "does not list all layers, and this type has \"sliding_window\" in all"
                      : "has windows that the model does not use");
  }
}

void ReadMistral(ConfigFields& fields, HuggingFaceConfig& config) {
  ReadLikeLlama(fields, kLlamaTheta, config.model);
  ReadWindowOfAll(fields, true, config.model);
  fields.Require("attention_bias", false);
}

void WriteMistral(const HuggingFaceConfig& config, LlamaJson& json) {
  WriteLikeLlama(config.model, json);
  json["sliding_window"] = WindowJson(config.model.window());
}

void ReadMixtral(ConfigFields& fields, HuggingFaceConfig& config) {
  ReadLikeLlama(fields, kMixtralTheta, config.model);
  ReadMixtureSizes(fields, "num_local_experts", config.model);
  fields.Require("router_jitter_noise", 0);
  ReadWindowOfAll(fields, true, config.model);
  fields.Require("attention_bias", false);
}

void WriteMixtral(const HuggingFaceConfig& config, LlamaJson& json) {
  WriteMistral(config, json);
  json["num_experts_per_tok"] = config.model.experts_per_token();
  json["num_local_experts"] = config.model.experts();
}

// Layers before "max_window_layers" see all positions.
void ReadQwenWindows(ConfigFields& fields, proto::Model& model) {
  constexpr const char* kFirst = "max_window_layers";
  std::vector<proto::Model> own = ListOwnNumbers(model);
  const bool uses = fields.Bool("use_sliding_window", false);
  std::vector<bool> windows(own.size(), false);
  if (uses) {
    const LlamaJson* const first = fields.Find(kFirst);
    const bool is_count = first == nullptr || first->is_number_unsigned();
    if (!is_count) fields.Refuse(kFirst, "is no number of layers");
    const uint64_t full = first == nullptr || !is_count ? 28 : first->get<uint64_t>();
    for (size_t i = 0; i < windows.size(); ++i) windows[i] = i >= full;
  }
  ReadLlamaWindows(fields, uses, std::move(windows), own);
  SetBlocks(own, &model);
}

void ReadQwen2(ConfigFields& fields, HuggingFaceConfig& config) {
  ReadLikeLlama(fields, kLlamaTheta, config.model);
  fields.Require("attention_bias", false);
  config.model.set_qkv_bias(true);
  ReadQwenWindows(fields, config.model);
}

void WriteQwen2(const HuggingFaceConfig& config, LlamaJson& json) {
  WriteLikeLlama(config.model, json);
  const int64_t window = FindBlock(config.model, true).window();
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = WindowJson(window);
  json["max_window_layers"] = window > 0 ? 0 : config.model.layers();
  if (!config.model.blocks().run().empty()) json["layer_types"] = LayerTypesJson(config.model);
}

void ReadQwen3(ConfigFields& fields, HuggingFaceConfig& config) {
  ReadLikeLlama(fields, kLlamaTheta, config.model);
  ReadAttentionBias(fields, config.model);
  config.model.set_qk_norm(true);
  ReadQwenWindows(fields, config.model);
}

void WriteQwen3(const HuggingFaceConfig& config, LlamaJson& json) {
  WriteQwen2(config, json);
  json["attention_bias"] = config.model.qkv_bias() && config.model.proj_bias();
}

// Which layers have one MLP: those of a list, and all but each `step`-th.
std::vector<bool> ReadDenseLayers(ConfigFields& fields, size_t layers) {
  constexpr const char* kList = "mlp_only_layers";
  const auto step = static_cast<size_t>(fields.Size("decoder_sparse_step", 1));
  std::vector<bool> dense(layers);
  for (size_t i = 0; i < layers; ++i) dense[i] = (i + 1) % step != 0;
  const LlamaJson* const list = fields.Find(kList);
  for (const LlamaJson& layer : list == nullptr ? LlamaJson::array() : *list) {
    if (!list->is_array() || !layer.is_number_unsigned()) {
      fields.Refuse(kList, "is no list of layers", "write their numbers, as in [0, 1]");
      break;
    }
    if (layer < layers) dense[layer.get<size_t>()] = true;
  }
  if (std::find(dense.begin(), dense.end(), false) == dense.end()) {
    fields.Refuse(fields.Has(kList) ? kList : "decoder_sparse_step", "leaves no layer with experts",
                  "use a config.json of type qwen3");
  }
  return dense;
}

void ReadQwen3Moe(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  ReadLikeLlama(fields, kLlamaTheta, model);
  const int64_t dense_inner = model.inner();
  model.set_inner(fields.Size("moe_intermediate_size"));
  ReadMixtureSizes(fields, "num_experts", model);
  model.set_norm_topk_prob(fields.Bool("norm_topk_prob", false));
  ReadAttentionBias(fields, model);
  model.set_qk_norm(true);
  // Its windows are those of all layers, whatever "max_window_layers" says.
  ReadWindowOfAll(fields, fields.Bool("use_sliding_window", false), model);
  std::vector<proto::Model> own = ListOwnNumbers(model);
  const std::vector<bool> dense = ReadDenseLayers(fields, own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    if (dense[i]) SetDense(dense_inner, own[i]);
  }
  SetBlocks(own, &model);
}

void WriteQwen3Moe(const HuggingFaceConfig& config, LlamaJson& json) {
  const proto::Model m = FindMixture(config.model);
  WriteLikeLlama(m, json);
  json["attention_bias"] = m.qkv_bias() && m.proj_bias();
  json["num_experts_per_tok"] = m.experts_per_token();
  json["num_experts"] = m.experts();
  json["moe_intermediate_size"] = m.inner();
  // The width of the MLP of a layer without experts; where there is none, as published models say.
  json["intermediate_size"] = m.experts_per_token() * m.inner();
  json["norm_topk_prob"] = m.norm_topk_prob();
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = LlamaJson::array();
  const std::vector<proto::Model> blocks = ListBlocks(config.model);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].experts() > 0) continue;
    json["mlp_only_layers"].push_back(i);
    json["intermediate_size"] = blocks[i].inner();
  }
  json["use_sliding_window"] = m.window() > 0;
  json["sliding_window"] = WindowJson(m.window());
}

// Layers without rotary positions: entries of 0 in "no_rope_layers", else the last of each
// "no_rope_layer_interval". They have the window, if one is used.
void ReadSmolLm3(ConfigFields& fields, HuggingFaceConfig& config) {
  constexpr const char* kList = "no_rope_layers";
  proto::Model& model = config.model;
  ReadLikeLlama(fields, kSmolTheta, model);
  ReadAttentionBias(fields, model);
  const bool uses = fields.Bool("use_sliding_window", false) && fields.Has("sliding_window");
  const auto interval = static_cast<size_t>(fields.Size("no_rope_layer_interval", 4));
  std::vector<proto::Model> own = ListOwnNumbers(model);
  std::vector<bool> plain(own.size());
  for (size_t i = 0; i < own.size(); ++i) plain[i] = (i + 1) % interval == 0;
  if (const LlamaJson* list = fields.Find(kList); list != nullptr && !list->empty()) {
    if (!list->is_array() || list->size() != own.size()) {
      return fields.Refuse(kList, absl::StrCat("is no list for ", own.size(), " layers"));
    }
    for (size_t i = 0; i < own.size(); ++i) {
      if ((*list)[i] != 0 && (*list)[i] != 1) return fields.Refuse(kList, "has other than 0 and 1");
      plain[i] = (*list)[i] == 0;
    }
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (plain[i]) own[i].set_rotary_share(0);
  }
  ReadLlamaWindows(fields, uses, uses ? plain : std::vector<bool>(own.size(), false), own);
  SetBlocks(own, &model);
}

void WriteSmolLm3(const HuggingFaceConfig& config, LlamaJson& json) {
  const proto::Model& m = config.model;
  WriteLikeLlama(m, json);
  json["mlp_bias"] = false;
  json["attention_bias"] = m.qkv_bias() && m.proj_bias();
  const int64_t window = FindBlock(m, true).window();
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = WindowJson(window);
  json["layer_types"] = LayerTypesJson(m);
  LlamaJson rotary = LlamaJson::array();
  for (const proto::Model& block : ListBlocks(m)) {
    rotary.push_back(block.rotary_share() == 0 ? 0 : 1);
  }
  json["no_rope_layers"] = std::move(rotary);
  json["no_rope_layer_interval"] = 4;
  json["pad_token_id"] = nullptr;  // the default is beyond small vocabularies
}

}  // namespace

std::vector<ModelType> LlamaTypes() {
  return {{.name = "llama",
           .architecture = "LlamaForCausalLM",
           .family = "llama",
           .defaults = R"({"max_position_embeddings":2048,"rms_norm_eps":1e-6,
         "num_key_value_heads":null})",
           .read = ReadLlama,
           .write = WriteLlama,
           .files = LlamaFiles},
          {.name = "mistral",
           .architecture = "MistralForCausalLM",
           .family = "llama",
           .defaults = R"({"max_position_embeddings":131072,"rms_norm_eps":1e-6})",
           .read = ReadMistral,
           .write = WriteMistral,
           .files = LlamaFiles},
          {.name = "mixtral",
           .architecture = "MixtralForCausalLM",
           .family = "llama",
           .defaults = R"({"max_position_embeddings":131072,"rms_norm_eps":1e-5})",
           .read = ReadMixtral,
           .write = WriteMixtral,
           .files = MixtralFiles},
          {.name = "qwen2",
           .architecture = "Qwen2ForCausalLM",
           .family = "llama",
           .defaults = R"({"max_position_embeddings":32768,"rms_norm_eps":1e-6})",
           .read = ReadQwen2,
           .write = WriteQwen2,
           .files = LlamaFiles},
          {.name = "qwen3",
           .architecture = "Qwen3ForCausalLM",
           .family = "llama",
           .defaults = R"({"max_position_embeddings":32768,"rms_norm_eps":1e-6,"head_dim":128})",
           .read = ReadQwen3,
           .write = WriteQwen3,
           .files = LlamaFiles},
          {.name = "qwen3_moe",
           .architecture = "Qwen3MoeForCausalLM",
           .family = "llama",
           .defaults = R"({"max_position_embeddings":32768,"rms_norm_eps":1e-6,
         "intermediate_size":6144})",
           .read = ReadQwen3Moe,
           .write = WriteQwen3Moe,
           .files = Qwen3MoeFiles},
          {.name = "smollm3",
           .architecture = "SmolLM3ForCausalLM",
           .family = "llama",
           .defaults = R"({"vocab_size":128256,"num_hidden_layers":36,"hidden_size":2048,
         "intermediate_size":11008,"num_attention_heads":16,"max_position_embeddings":32768,
         "rms_norm_eps":1e-6,"num_key_value_heads":4,"tie_word_embeddings":true})",
           .read = ReadSmolLm3,
           .write = WriteSmolLm3,
           .files = LlamaFiles}};
}

}  // namespace oneflow
