// config.json of gpt-oss.
#include <cstdint>
#include <vector>

#include "oneflow_core/model/block_lists.h"
#include "training/hugging_face/decoder_config.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

constexpr double kGptOssTheta = 150000, kGateAndUpLimit = 7, kGateSlope = 1.702;

// Releases of transformers take YaRN where nothing is said.
void ReadGptOssRotary(ConfigFields& fields, proto::Model& model) {
  constexpr const char *kScaling = "rope_scaling", *kParameters = "rope_parameters";
  const proto::RopeScaling usual = model.rope_scaling();
  ReadRotary(fields, kGptOssTheta, model);
  if (fields.Has(kScaling) || fields.Has(kParameters)) return;
  if (fields.Contains(kScaling) || fields.Contains(kParameters)) {
    fields.Refuse(fields.Contains(kScaling) ? kScaling : kParameters,
                  "is null, and releases of transformers differ in what they take for it",
                  "write {\"rope_type\": \"default\"} for positions without scaling");
  }
  *model.mutable_rope_scaling() = usual;
}

void ReadGptOss(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  ReadSizes(fields, model);
  ReadGptOssRotary(fields, model);
  ReadAttentionBias(fields, model);
  ReadMixtureSizes(fields, "num_local_experts", model);
  fields.Require("hidden_act", "silu");
  fields.Require("swiglu_limit", kGateAndUpLimit);
  fields.Require("swiglu_alpha", kGateSlope);
  std::vector<proto::Model> own = ListOwnNumbers(model);
  std::vector<bool> windows(own.size());
  for (size_t i = 0; i < own.size(); ++i) windows[i] = i % 2 == 0;
  ReadLayerTypes(fields, windows);
  const int64_t window = fields.Has("sliding_window") ? fields.Size("sliding_window") : 0;
  for (size_t i = 0; i < own.size(); ++i) {
    if (windows[i] && window > 0) own[i].set_window(window);
  }
  SetBlocks(own, &model);
}

void WriteGptOss(const HuggingFaceConfig& config, ModelType::Json& json) {
  const proto::Model& m = config.model;
  json["hidden_act"] = "silu";
  WriteSizes(m, json);
  WriteRotary(m, json);
  if (json["rope_scaling"].is_null()) json["rope_scaling"] = {{"rope_type", "default"}};
  json["attention_bias"] = m.qkv_bias() && m.proj_bias();
  json["num_local_experts"] = m.experts();
  json["num_experts_per_tok"] = m.experts_per_token();
  json["swiglu_limit"] = kGateAndUpLimit;
  json["sliding_window"] = WindowJson(FindBlock(m, true).window());
  json["layer_types"] = LayerTypesJson(m);
}

}  // namespace

std::vector<ModelType> GptOssTypes() {
  return {{.name = "gpt_oss",
           .architecture = "GptOssForCausalLM",
           .family = "gpt_oss",
           .defaults = R"({"vocab_size":201088,"num_hidden_layers":36,"hidden_size":2880,
             "intermediate_size":2880,"num_attention_heads":64,"num_local_experts":128,
             "num_experts_per_tok":4,"max_position_embeddings":131072,"rms_norm_eps":1e-5,
             "head_dim":64,"num_key_value_heads":8,"sliding_window":128,"attention_bias":true})",
           .read = ReadGptOss,
           .write = WriteGptOss,
           .files = GptOssFiles,
           .quantization = "mxfp4"}};
}

}  // namespace oneflow
