// config.json of OLMo 2 and 3.
#include <cstdint>
#include <string>

#include "oneflow_core/model/block_lists.h"
#include "training/hugging_face/decoder_config.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

constexpr double kOlmo2Theta = 10000, kOlmo3Theta = 500000;
constexpr char kOlmoKeys[] =
    R"({"vocab_size":50304,"num_hidden_layers":32,"hidden_size":4096,"intermediate_size":11008,
          "num_attention_heads":32,"max_position_embeddings":2048,"rms_norm_eps":1e-5,"num_key_value_heads":null,
          "sliding_window":4096})";

void ReadOlmo(ConfigFields& fields, proto::Model& model) {
  ReadSizes(fields, model);
  ReadAttentionBias(fields, model);
  fields.Require("hidden_act", "silu");
}

void ReadOlmo2(ConfigFields& fields, HuggingFaceConfig& config) {
  ReadOlmo(fields, config.model);
  ReadRotary(fields, kOlmo2Theta, config.model);
}

// Layers with a window have no scaling of rotary positions, and in releases 5 of transformers no
// "rope_theta" but that of "rope_parameters". Without it, releases differ, unless theta is that of
// published models.
void ReadOlmo3(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  ReadOlmo(fields, model);
  proto::Model local = model;
  ReadRotary(fields, kOlmo3Theta, model, "full_attention");
  const bool stated = ReadWindowRotary(fields, "", kOlmo3Theta, local);
  if (!stated && model.theta() != kOlmo3Theta) {
    fields.Refuse("rope_theta", "is that of layers with a window in some releases of transformers",
                  "state it for both kinds of layers, in \"rope_parameters\"");
  }
  std::vector<proto::Model> own = ListOwnNumbers(model);
  std::vector<bool> windows(own.size());
  for (size_t i = 0; i < own.size(); ++i) windows[i] = (i + 1) % 4 != 0;
  ReadLayerTypes(fields, windows);
  local.set_window(ReadWindowSize(fields, windows));
  const proto::Model of_local = ListChanges(model, local);
  for (size_t i = 0; i < own.size(); ++i) {
    if (windows[i]) own[i] = of_local;
  }
  SetBlocks(own, &model);
}

void WriteOlmo2(const HuggingFaceConfig& config, ModelType::Json& json) {
  json["hidden_act"] = "silu";
  WriteSizes(config.model, json);
  WriteRotary(config.model, json);
  // Releases 4 of transformers take linear scaling alone, under its older name.
  if (config.model.rope_scaling().kind() == proto::RopeScaling::LINEAR) {
    const ModelType::Json scaling = json["rope_scaling"];
    json["rope_scaling"] = {{"type", scaling["rope_type"]}, {"factor", scaling["factor"]}};
  }
  json["attention_bias"] = config.model.qkv_bias() && config.model.proj_bias();
}

void WriteOlmo3(const HuggingFaceConfig& config, ModelType::Json& json) {
  const proto::Model full = FindBlock(config.model, false), local = FindBlock(config.model, true);
  WriteOlmo2(config, json);
  WriteRotary(full, json);
  WriteWindows(config.model, json);
  // Releases 5 of transformers read this, and releases 4 what is above.
  if (full.theta() != local.theta()) {  // which releases 4 cannot have
    for (const char* key : {"rope_theta", "rope_scaling"}) json.erase(key);
  }
  json["rope_parameters"] = RopeParametersJson(full, local);
}

}  // namespace

std::vector<ModelType> OlmoTypes() {
  return {{.name = "olmo2",
           .architecture = "Olmo2ForCausalLM",
           .family = "olmo",
           .defaults = kOlmoKeys,
           .read = ReadOlmo2,
           .write = WriteOlmo2,
           .files = OlmoFiles},
          {.name = "olmo3",
           .architecture = "Olmo3ForCausalLM",
           .family = "olmo",
           .defaults = kOlmoKeys,
           .read = ReadOlmo3,
           .write = WriteOlmo3,
           .files = OlmoFiles}};
}

}  // namespace oneflow
