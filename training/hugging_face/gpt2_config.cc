// config.json of GPT-2.
#include "absl/strings/str_cat.h"
#include "training/hugging_face/model_types.h"

namespace oneflow {
namespace {

void ReadGpt2(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  model.set_layers(fields.Size("n_layer"));
  model.set_hidden(fields.Size("n_embd"));
  model.set_heads(fields.Size("n_head"));
  model.set_sequence(fields.Size("n_positions"));
  if (fields.Size("n_inner", 4 * model.hidden()) != 4 * model.hidden()) {
    fields.Refuse("n_inner", absl::StrCat("is not 4 times \"n_embd\": ", model.hidden()));
  }
  if (model.hidden() % model.heads() != 0) {
    fields.Refuse("n_head", absl::StrCat("does not divide \"n_embd\": ", model.hidden()));
  }
  model.set_norm_epsilon(fields.Number("layer_norm_epsilon", 1e-5));
  model.set_tied(fields.Bool("tie_word_embeddings", true));
  const double rates[] = {fields.Number("embd_pdrop", 0.1), fields.Number("attn_pdrop", 0.1),
                          fields.Number("resid_pdrop", 0.1)};
  model.set_dropout(rates[0] == rates[1] && rates[1] == rates[2] ? rates[0] : 0);
  fields.Require("activation_function", "gelu_new");
  fields.Require("scale_attn_weights", true);
  fields.Require("scale_attn_by_inverse_layer_idx", false);
}

void WriteGpt2(const HuggingFaceConfig& config, ModelType::Json& json) {
  const proto::Model& m = config.model;
  json["activation_function"] = "gelu_new";
  json["n_layer"] = m.layers();
  json["n_embd"] = m.hidden();
  json["n_head"] = m.heads();
  json["n_inner"] = nullptr;
  json["n_positions"] = m.sequence();
  json["n_ctx"] = m.sequence();
  json["layer_norm_epsilon"] = m.norm_epsilon();
  for (const char* rate : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) json[rate] = m.dropout();
}

}  // namespace

std::vector<ModelType> Gpt2Types() {
  return {{.name = "gpt2",
           .architecture = "GPT2LMHeadModel",
           .family = "gpt",
           .defaults = R"({"n_positions":1024})",
           .read = ReadGpt2,
           .write = WriteGpt2,
           .files = GptFiles}};
}

}  // namespace oneflow
