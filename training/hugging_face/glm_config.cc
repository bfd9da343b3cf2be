// config.json of GLM 4.5.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/model/block_lists.h"
#include "training/hugging_face/decoder_config.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

constexpr double kGlmTheta = 10000, kGlmShare = 0.5;

int64_t ReadCount(ConfigFields& fields, const char* key, int64_t otherwise) {
  const ModelType::Json* const value = fields.Find(key);
  return value != nullptr && *value == 0 ? 0 : fields.Size(key, otherwise);
}

// The share of a head that turns may be said beside theta and scaling.
void ReadShare(ConfigFields& fields, proto::Model& model) {
  constexpr const char *kShare = "partial_rotary_factor", *kParameters = "rope_parameters";
  model.set_rotary_share(fields.Number(kShare, kGlmShare));
  if (fields.Contains(kShare) && !fields.Has(kShare)) {
    fields.Refuse(kShare, "is null, which is all of a head in some releases of transformers",
                  "write a number");
  }
  const ModelType::Json* const rope = fields.Find(kParameters);
  if (!fields.Has(kShare) && rope != nullptr && rope->is_object()) {
    ConfigFields inside = fields.Inside(kParameters, *rope);
    model.set_rotary_share(inside.Number(kShare, kGlmShare));
    if (fields.Has("rope_scaling") && model.rotary_share() != kGlmShare) {
      inside.Refuse(kShare, "is not read beside \"rope_scaling\" by releases of transformers",
                    "write it beside these two");
    }
    fields.Keep(inside.status());
  }
  if (model.rotary_share() <= 0 || model.rotary_share() > 1) {
    fields.Refuse(kShare, absl::StrCat("is no share of a head: ", model.rotary_share()));
    model.set_rotary_share(kGlmShare);
  }
}

void ReadGlm4Moe(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  ReadSizes(fields, model);
  const int64_t dense_inner = model.inner();
  ReadShare(fields, model);
  ReadRotary(fields, kGlmTheta, model);
  model.set_qkv_bias(fields.Bool("attention_bias", false));
  model.set_qk_norm(fields.Bool("use_qk_norm", false));
  fields.Require("hidden_act", "silu");
  model.set_inner(fields.Size("moe_intermediate_size"));
  ReadMixtureSizes(fields, "n_routed_experts", model);
  model.set_shared_inner(ReadCount(fields, "n_shared_experts", 1) * model.inner());
  model.set_norm_topk_prob(fields.Bool("norm_topk_prob", true));
  model.set_routed_scale(fields.Number("routed_scaling_factor", 1));
  if (model.routed_scale() <= 0) fields.Refuse("routed_scaling_factor", "is not above 0");
  for (const char* key : {"n_group", "topk_group"}) fields.Require(key, 1);
  config.further_blocks = ReadCount(fields, "num_nextn_predict_layers", 1);
  constexpr const char* kDense = "first_k_dense_replace";
  std::vector<proto::Model> own = ListOwnNumbers(model);
  const auto dense = static_cast<size_t>(ReadCount(fields, kDense, 1));
  if (dense >= own.size()) fields.Refuse(kDense, "leaves no layer with experts");
  for (size_t i = 0; i < dense && i < own.size(); ++i) SetDense(dense_inner, own[i]);
  SetBlocks(own, &model);
}

void WriteGlm4Moe(const HuggingFaceConfig& config, ModelType::Json& json) {
  const proto::Model m = FindMixture(config.model);
  json["hidden_act"] = "silu";
  WriteSizes(m, json);
  WriteRotary(m, json);
  json["partial_rotary_factor"] = m.rotary_share();
  json["attention_bias"] = m.qkv_bias();
  json["use_qk_norm"] = m.qk_norm();
  json["moe_intermediate_size"] = m.inner();
  json["n_routed_experts"] = m.experts();
  json["num_experts_per_tok"] = m.experts_per_token();
  json["n_shared_experts"] = m.shared_inner() / m.inner();
  json["norm_topk_prob"] = m.norm_topk_prob();
  json["routed_scaling_factor"] = m.routed_scale();
  json["n_group"] = 1;
  json["topk_group"] = 1;
  json["num_nextn_predict_layers"] = config.further_blocks;
  const std::vector<proto::Model> blocks = ListBlocks(config.model);
  int64_t dense = 0;
  while (dense < static_cast<int64_t>(blocks.size()) && blocks[dense].experts() == 0) ++dense;
  json["first_k_dense_replace"] = dense;
  if (dense > 0) json["intermediate_size"] = blocks[0].inner();
}

}  // namespace

std::vector<ModelType> GlmTypes() {
  return {{.name = "glm4_moe",
           .architecture = "Glm4MoeForCausalLM",
           .family = "glm",
           .defaults = R"({"vocab_size":151552,"num_hidden_layers":46,"hidden_size":4096,
             "intermediate_size":10944,"num_attention_heads":96,"num_key_value_heads":8,
             "max_position_embeddings":131072,"rms_norm_eps":1e-5,"moe_intermediate_size":1408,
             "n_routed_experts":128,"num_experts_per_tok":8})",
           .read = ReadGlm4Moe,
           .write = WriteGlm4Moe,
           .files = Glm4MoeFiles}};
}

}  // namespace oneflow
