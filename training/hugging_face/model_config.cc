#include "training/hugging_face/model_config.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/config_fields.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::util::MessageDifferencer;

constexpr const char* kFamilies[] = {"gpt2",  "llama", "mistral",  "mixtral",
                                     "qwen2", "qwen3", "qwen3_moe"};
constexpr std::pair<const char*, const char*> kModelTypes[] = {
    {"float32", "f32"}, {"bfloat16", "bf16"}, {"float16", "f16"}};
constexpr double kDefaultTheta = 10000, kMixtralTheta = 1000000;
constexpr char kOneOfBoth[] = "remove the one that the weights were not trained with";

// The positions of a model whose configuration does not say: those of transformers 4.57 and 5.
int64_t DefaultPositions(std::string_view type) {
  if (type == "gpt2") return 1024;
  if (type == "llama") return 2048;
  return type.starts_with("qwen") ? 32768 : 131072;
}

void ReadCommon(ConfigFields& fields, HuggingFaceConfig& config) {
  config.model.set_vocab(fields.Size("vocab_size"));
  config.end_ids = fields.Ids("eos_token_id");
  // Some folders have a list of one.
  const std::vector<int64_t> begin = fields.Ids("bos_token_id");
  if (!begin.empty()) config.begin_id = begin[0];
  const std::string dtype = fields.String("dtype", fields.String("torch_dtype", ""));
  for (const auto& [theirs, ours] : kModelTypes) {
    if (dtype == theirs) config.dtype = ours;
  }
  for (const char* key : {"add_cross_attention", "is_encoder_decoder"}) fields.Require(key, false);
  for (const char* key : {"quantization_config", "auto_map"}) {
    if (fields.Has(key)) {
      fields.Refuse(key, "is not supported",
                    "use a model of transformers itself, with weights that are not quantized");
    }
  }
  if (const Json* pruned = fields.Find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    fields.Refuse("pruned_heads", "is not supported");
  }
}

void ReadGpt2(ConfigFields& fields, HuggingFaceConfig& config) {
  proto::Model& model = config.model;
  model.set_family("gpt");
  model.set_layers(fields.Size("n_layer"));
  model.set_hidden(fields.Size("n_embd"));
  model.set_heads(fields.Size("n_head"));
  model.set_sequence(fields.Size("n_positions", DefaultPositions(config.model_type)));
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

void ReadScaling(ConfigFields& rope, proto::RopeScaling& scaling) {
  scaling.set_factor(rope.Number("factor"));
  scaling.set_low(rope.Number("low_freq_factor"));
  scaling.set_high(rope.Number("high_freq_factor"));
  scaling.set_positions(rope.Size("original_max_position_embeddings"));
  if (scaling.factor() < 1) rope.Refuse("factor", "is below 1");
  if (scaling.low() <= 0) rope.Refuse("low_freq_factor", "is not above 0");
  if (scaling.high() <= scaling.low()) {
    rope.Refuse("high_freq_factor", "is not above \"low_freq_factor\"");
  }
}

// One of "rope_scaling" and "rope_parameters". Sets both theta and scaling of `model`.
void ReadRotary(ConfigFields& fields, const std::string& where, const char* key,
                proto::Model& model) {
  const Json* object = fields.Find(key);
  if (!object->is_object()) return fields.Refuse(key, "is no object");
  ConfigFields rope(*object, where, std::string(key) + ".");
  const char* type_key = rope.Has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.String(type_key, "default");
  std::vector<std::string> known = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  if (type == "llama3") {
    ReadScaling(rope, *model.mutable_rope_scaling());
    known.insert(known.end(), {"factor", "low_freq_factor", "high_freq_factor",
                               "original_max_position_embeddings"});
  } else if (type != "default") {
    rope.Refuse(type_key, "is not supported", "use a model whose rope type is default or llama3");
  }
  rope.Require("partial_rotary_factor", 1);
  if (rope.Has("rope_theta")) {
    const double theta = rope.Number("rope_theta");
    if (fields.Has("rope_theta") && theta != model.theta()) {
      rope.Refuse("rope_theta", "contradicts \"rope_theta\"", kOneOfBoth);
    }
    model.set_theta(theta);
  }
  for (const auto& [name, value] : object->items()) {
    if (std::find(known.begin(), known.end(), name) == known.end() && !value.is_null()) {
      rope.Refuse(name.c_str(), "is not supported");
    }
  }
  fields.Keep(rope.status());
}

// The layers whose attention is limited to a window: all or none.
void ReadWindow(ConfigFields& fields, HuggingFaceConfig& config) {
  const std::string& type = config.model_type;
  const int64_t layers = config.model.layers();
  const bool qwen = type == "qwen2" || type == "qwen3";
  const bool uses = qwen || type == "qwen3_moe" ? fields.Bool("use_sliding_window", false)
                                                : type == "mistral" || type == "mixtral";
  int64_t sliding = uses ? layers : 0;  // layers
  if (uses && qwen) {
    // The layers before that one see all.
    const Json* first = fields.Find("max_window_layers");
    const bool is_count = first == nullptr || first->is_number_unsigned();
    if (!is_count) fields.Refuse("max_window_layers", "is no number of layers");
    const uint64_t full = first == nullptr || !is_count ? 28 : first->get<uint64_t>();
    sliding = layers - static_cast<int64_t>(std::min<uint64_t>(full, layers));
  }
  const char* key = qwen ? "max_window_layers" : "sliding_window";
  if (const Json* types = fields.Find("layer_types"); types != nullptr) {
    key = "layer_types";
    if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
      return fields.Refuse(key, absl::StrCat("is no list for ", layers, " layers"));
    }
    int64_t listed = 0;
    for (const Json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention") {
        return fields.Refuse(key, "is not supported: full_attention or sliding_attention is");
      }
      listed += type == "sliding_attention" ? 1 : 0;
    }
    if (listed > 0 && !uses) return fields.Refuse(key, "has windows that the model does not use");
    sliding = listed;
  }
  if (sliding > 0 && sliding < layers) {
    return fields.Refuse(key, absl::StrCat("is not supported: ", sliding, " of ", layers,
                                           " layers would have a window, and all or none can"));
  }
  if (sliding == 0) return;
  // Its default differs between releases of transformers.
  if (!fields.Contains("sliding_window")) return fields.Refuse("sliding_window", "is missing");
  if (fields.Has("sliding_window")) config.model.set_window(fields.Size("sliding_window"));
}

// Every block has experts: those of some blocks, or an MLP beside them, have no equivalent.
void ReadExperts(ConfigFields& fields, HuggingFaceConfig& config) {
  const bool qwen = config.model_type == "qwen3_moe";
  proto::Model& model = config.model;
  model.set_inner(fields.Size(qwen ? "moe_intermediate_size" : "intermediate_size"));
  // Releases of transformers write one of two keys.
  const bool local = fields.Has("num_local_experts");
  model.set_experts(fields.Size(qwen && !local ? "num_experts" : "num_local_experts"));
  model.set_experts_per_token(fields.Size("num_experts_per_tok"));
  if (model.experts_per_token() > model.experts()) {
    fields.Refuse("num_experts_per_tok",
                  absl::StrCat("is more than the ", model.experts(), " experts"));
  }
  fields.Require("router_jitter_noise", 0);
  model.set_norm_topk_prob(!qwen || fields.Bool("norm_topk_prob", false));
  if (!qwen) return;
  const std::string hint = "use a model with experts in every layer";
  if (fields.Size("decoder_sparse_step", 1) != 1) {
    fields.Refuse("decoder_sparse_step", "is not supported: some layers would have no experts",
                  hint);
  }
  if (const Json* dense = fields.Find("mlp_only_layers"); dense != nullptr && !dense->empty()) {
    fields.Refuse("mlp_only_layers", "is not supported: these layers would have no experts", hint);
  }
}

void ReadLlama(ConfigFields& fields, const std::string& where, HuggingFaceConfig& config) {
  const std::string& type = config.model_type;
  const bool mixtral = type == "mixtral", mixture = mixtral || type == "qwen3_moe";
  proto::Model& model = config.model;
  model.set_family("llama");
  model.set_layers(fields.Size("num_hidden_layers"));
  model.set_hidden(fields.Size("hidden_size"));
  model.set_experts(0);
  if (mixture) {
    ReadExperts(fields, config);
  } else {
    model.set_inner(fields.Size("intermediate_size"));
  }
  const int64_t heads = fields.Size("num_attention_heads");
  model.set_heads(heads);
  // The defaults of the other families differ between releases of transformers.
  if (type != "llama" && !fields.Contains("num_key_value_heads")) {
    fields.Refuse("num_key_value_heads", "is missing");
  }
  model.set_groups(fields.Size("num_key_value_heads", heads));
  model.set_sequence(fields.Size("max_position_embeddings", DefaultPositions(type)));
  const bool needs_head_dim = !fields.Has("head_dim") && type != "qwen3";
  if (needs_head_dim && model.hidden() % heads != 0) {
    fields.Refuse("num_attention_heads",
                  absl::StrCat("does not divide \"hidden_size\": ", model.hidden()));
  }
  model.set_head_dim(fields.Size("head_dim", type == "qwen3" ? 128 : model.hidden() / heads));
  if (heads % model.groups() != 0) {
    fields.Refuse("num_key_value_heads",
                  absl::StrCat("does not divide \"num_attention_heads\": ", heads));
  }
  if (model.head_dim() % 2 != 0) fields.Refuse("head_dim", "is odd");
  model.set_norm_epsilon(fields.Number("rms_norm_eps", mixtral ? 1e-5 : 1e-6));
  model.set_tied(fields.Bool("tie_word_embeddings", false));
  model.set_theta(fields.Number("rope_theta", mixtral ? kMixtralTheta : kDefaultTheta));
  model.mutable_rope_scaling();
  // Releases of transformers read one or the other, so both must say the same.
  constexpr const char *kScaling = "rope_scaling", *kParameters = "rope_parameters";
  const auto has = [&](const char* key) { return fields.Has(key) && !fields.Find(key)->empty(); };
  proto::Model other = model;
  if (has(kScaling)) ReadRotary(fields, where, kScaling, model);
  if (has(kParameters)) ReadRotary(fields, where, kParameters, other);
  if (has(kScaling) && has(kParameters) && !MessageDifferencer::Equals(other, model)) {
    fields.Refuse(kParameters,
                  absl::StrCat("contradicts \"", kScaling, "\", with the theta of each"),
                  kOneOfBoth);
  }
  if (!has(kScaling)) model = other;
  if (model.theta() <= 0) fields.Refuse("rope_theta", "is not above 0");
  model.set_window(0);
  ReadWindow(fields, config);
  // Families differ in these, not their configurations.
  model.set_qkv_bias(type == "qwen2");
  model.set_qk_norm(type == "qwen3" || type == "qwen3_moe");
  fields.Require("hidden_act", "silu");
  fields.Require("attention_bias", false);
  fields.Require("mlp_bias", false);
  fields.Require("partial_rotary_factor", 1);
}

Json IdsJson(const std::vector<int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

Json Gpt2Json(const HuggingFaceConfig& c) {
  const proto::Model& m = c.model;
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", c.model_type},
          {"activation_function", "gelu_new"},
          {"n_layer", m.layers()},
          {"n_embd", m.hidden()},
          {"n_head", m.heads()},
          {"n_inner", nullptr},
          {"n_positions", m.sequence()},
          {"n_ctx", m.sequence()},
          {"layer_norm_epsilon", m.norm_epsilon()},
          {"embd_pdrop", m.dropout()},
          {"attn_pdrop", m.dropout()},
          {"resid_pdrop", m.dropout()}};
}

void AddExperts(const HuggingFaceConfig& c, Json& json) {
  const proto::Model& m = c.model;
  json["num_experts_per_tok"] = m.experts_per_token();
  if (c.model_type == "mixtral") {
    json["num_local_experts"] = m.experts();
    return;
  }
  json["num_experts"] = m.experts();
  json["moe_intermediate_size"] = m.inner();
  // The width of the MLP of a layer without experts; there is none. Published models say the same.
  json["intermediate_size"] = m.experts_per_token() * m.inner();
  json["norm_topk_prob"] = m.norm_topk_prob();
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = Json::array();
  json["use_sliding_window"] = m.window() > 0;
  json["sliding_window"] = m.window() > 0 ? Json(m.window()) : Json(nullptr);
}

Json LlamaJson(const HuggingFaceConfig& c) {
  const proto::Model& m = c.model;
  constexpr std::pair<const char*, const char*> kArchitectures[] = {
      {"llama", "LlamaForCausalLM"},     {"mistral", "MistralForCausalLM"},
      {"mixtral", "MixtralForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},     {"qwen3_moe", "Qwen3MoeForCausalLM"}};
  const auto* const found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                         [&](const auto& a) { return a.first == c.model_type; });
  Json json = {{"architectures", {found->second}},
               {"model_type", c.model_type},
               {"hidden_act", "silu"},
               {"num_hidden_layers", m.layers()},
               {"hidden_size", m.hidden()},
               {"intermediate_size", m.inner()},
               {"num_attention_heads", m.heads()},
               {"num_key_value_heads", m.groups()},
               {"head_dim", m.head_dim()},
               {"max_position_embeddings", m.sequence()},
               {"rms_norm_eps", m.norm_epsilon()},
               {"rope_theta", m.theta()},
               {"rope_scaling", nullptr},
               {"attention_dropout", 0.0}};
  if (const proto::RopeScaling& s = m.rope_scaling(); s.factor() > 0) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", s.factor()},
                            {"low_freq_factor", s.low()},
                            {"high_freq_factor", s.high()},
                            {"original_max_position_embeddings", s.positions()}};
  }
  const Json window = m.window() > 0 ? Json(m.window()) : Json(nullptr);
  if (c.model_type == "mistral" || c.model_type == "mixtral") json["sliding_window"] = window;
  if (c.model_type == "qwen2" || c.model_type == "qwen3") {
    json["use_sliding_window"] = m.window() > 0;
    json["sliding_window"] = window;
    json["max_window_layers"] = m.window() > 0 ? 0 : m.layers();
  }
  if (c.model_type == "llama") json["mlp_bias"] = false;
  if (c.model_type == "llama" || m.qk_norm()) json["attention_bias"] = false;
  if (m.experts() > 0) AddExperts(c, json);
  return json;
}

}  // namespace

bool operator==(const HuggingFaceConfig& a, const HuggingFaceConfig& b) {
  const auto rest = [](const HuggingFaceConfig& c) {
    return std::tie(c.model_type, c.end_ids, c.begin_id, c.dtype);
  };
  return rest(a) == rest(b) && MessageDifferencer::Equals(a.model, b.model);
}

bool IsHuggingFaceFamily(std::string_view model_type) {
  return std::find(std::begin(kFamilies), std::end(kFamilies), model_type) != std::end(kFamilies);
}

absl::StatusOr<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text,
                                                         const std::string& where,
                                                         std::string_view generation,
                                                         const std::string& where_generation) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJson(text, where));
  ConfigFields fields(json, where);
  HuggingFaceConfig config;
  config.model_type = fields.String("model_type", "");
  if (!IsHuggingFaceFamily(config.model_type)) {
    const std::string why = fields.Has("model_type") ? "is not supported" : "is missing";
    fields.Refuse("model_type", why, "use a model of one of " + absl::StrJoin(kFamilies, ", "));
    return fields.status();
  }
  ReadCommon(fields, config);
  if (config.model_type == "gpt2") {
    ReadGpt2(fields, config);
  } else {
    ReadLlama(fields, where, config);
  }
  RETURN_IF_ERROR(fields.status());
  if (generation.empty()) return config;
  ASSIGN_OR_RETURN(const Json more, ParseStrictJson(generation, where_generation));
  ConfigFields ids(more, where_generation);
  if (ids.Has("eos_token_id")) config.end_ids = ids.Ids("eos_token_id");
  RETURN_IF_ERROR(ids.status());
  return config;
}

absl::StatusOr<HuggingFaceConfig> ReadHuggingFaceConfig(const std::string& dir) {
  const std::string config = dir + "/config.json", generation = dir + "/generation_config.json";
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(config, "give a folder that transformers has saved a model to"));
  std::string more;
  std::error_code ignored;
  if (std::filesystem::exists(generation, ignored)) {
    ASSIGN_OR_RETURN(more, ReadFile(generation));
  }
  return ParseHuggingFaceConfig(text, config, more, generation);
}

std::string ConfigText(const HuggingFaceConfig& config) {
  Json json = config.is_gpt2() ? Gpt2Json(config) : LlamaJson(config);
  json["vocab_size"] = config.model.vocab();
  json["tie_word_embeddings"] = config.model.tied();
  json["bos_token_id"] = config.begin_id ? Json(*config.begin_id) : Json(nullptr);
  json["eos_token_id"] = IdsJson(config.end_ids);
  for (const auto& [theirs, ours] : kModelTypes) {
    if (config.dtype == ours) json["torch_dtype"] = theirs;
  }
  json["use_cache"] = true;
  return JsonText(json, 2) + "\n";
}

std::string GenerationConfigText(const HuggingFaceConfig& config) {
  Json json = {{"_from_model_config", true}};
  if (config.begin_id) json["bos_token_id"] = *config.begin_id;
  if (!config.end_ids.empty()) json["eos_token_id"] = IdsJson(config.end_ids);
  return JsonText(json, 2) + "\n";
}

}  // namespace oneflow
