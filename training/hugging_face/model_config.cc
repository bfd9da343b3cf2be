#include "training/hugging_face/model_config.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
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
  config.vocab = fields.Size("vocab_size");
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
  config.layers = fields.Size("n_layer");
  config.hidden = fields.Size("n_embd");
  config.heads = config.groups = fields.Size("n_head");
  config.positions = fields.Size("n_positions", DefaultPositions(config.model_type));
  config.inner = fields.Size("n_inner", 4 * config.hidden);
  if (config.inner != 4 * config.hidden) {
    fields.Refuse("n_inner", absl::StrCat("is not 4 times \"n_embd\": ", config.hidden));
  }
  if (config.hidden % config.heads != 0) {
    fields.Refuse("n_head", absl::StrCat("does not divide \"n_embd\": ", config.hidden));
  }
  config.head_dim = config.hidden / config.heads;
  config.norm_epsilon = fields.Number("layer_norm_epsilon", 1e-5);
  config.tied = fields.Bool("tie_word_embeddings", true);
  const double rates[] = {fields.Number("embd_pdrop", 0.1), fields.Number("attn_pdrop", 0.1),
                          fields.Number("resid_pdrop", 0.1)};
  if (rates[0] == rates[1] && rates[1] == rates[2]) config.dropout = rates[0];
  fields.Require("activation_function", "gelu_new");
  fields.Require("scale_attn_weights", true);
  fields.Require("scale_attn_by_inverse_layer_idx", false);
}

void ReadScaling(ConfigFields& rope, int64_t positions, HuggingFaceConfig& config) {
  RotaryScalingConfig scaling;
  scaling.factor = rope.Number("factor");
  scaling.low_frequency_factor = rope.Number("low_freq_factor");
  scaling.high_frequency_factor = rope.Number("high_freq_factor");
  scaling.original_positions = rope.Size("original_max_position_embeddings");
  if (scaling.factor < 1) rope.Refuse("factor", "is below 1");
  if (scaling.low_frequency_factor <= 0) rope.Refuse("low_freq_factor", "is not above 0");
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
    rope.Refuse("high_freq_factor", "is not above \"low_freq_factor\"");
  }
  config.scaling = scaling;
}

// One of "rope_scaling" and "rope_parameters". Sets both theta and scaling of `config`.
void ReadRotary(ConfigFields& fields, const std::string& where, const char* key,
                HuggingFaceConfig& config) {
  const Json* object = fields.Find(key);
  if (!object->is_object()) return fields.Refuse(key, "is no object");
  ConfigFields rope(*object, where, std::string(key) + ".");
  const char* type_key = rope.Has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.String(type_key, "default");
  std::vector<std::string> known = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  if (type == "llama3") {
    ReadScaling(rope, config.positions, config);
    known.insert(known.end(), {"factor", "low_freq_factor", "high_freq_factor",
                               "original_max_position_embeddings"});
  } else if (type != "default") {
    rope.Refuse(type_key, "is not supported", "use a model whose rope type is default or llama3");
  }
  rope.Require("partial_rotary_factor", 1);
  if (rope.Has("rope_theta")) {
    const double theta = rope.Number("rope_theta");
    if (fields.Has("rope_theta") && theta != config.rotary_theta) {
      rope.Refuse("rope_theta", "contradicts \"rope_theta\"", kOneOfBoth);
    }
    config.rotary_theta = theta;
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
  const bool qwen = type == "qwen2" || type == "qwen3";
  const bool uses = qwen || type == "qwen3_moe" ? fields.Bool("use_sliding_window", false)
                                                : type == "mistral" || type == "mixtral";
  int64_t sliding = uses ? config.layers : 0;  // layers
  if (uses && qwen) {
    // The layers before that one see all.
    const Json* first = fields.Find("max_window_layers");
    const bool is_count = first == nullptr || first->is_number_unsigned();
    if (!is_count) fields.Refuse("max_window_layers", "is no number of layers");
    const uint64_t full = first == nullptr || !is_count ? 28 : first->get<uint64_t>();
    sliding = config.layers - static_cast<int64_t>(std::min<uint64_t>(full, config.layers));
  }
  const char* key = qwen ? "max_window_layers" : "sliding_window";
  if (const Json* types = fields.Find("layer_types"); types != nullptr) {
    key = "layer_types";
    if (!types->is_array() || static_cast<int64_t>(types->size()) != config.layers) {
      return fields.Refuse(key, absl::StrCat("is no list for ", config.layers, " layers"));
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
  if (sliding > 0 && sliding < config.layers) {
    return fields.Refuse(key, absl::StrCat("is not supported: ", sliding, " of ", config.layers,
                                           " layers would have a window, and all or none can"));
  }
  if (sliding == 0) return;
  // Its default differs between releases of transformers.
  if (!fields.Contains("sliding_window")) return fields.Refuse("sliding_window", "is missing");
  if (fields.Has("sliding_window")) config.window = fields.Size("sliding_window");
}

// Every block has experts: those of some blocks, or an MLP beside them, have no equivalent.
void ReadExperts(ConfigFields& fields, HuggingFaceConfig& config) {
  const bool qwen = config.model_type == "qwen3_moe";
  config.inner = fields.Size(qwen ? "moe_intermediate_size" : "intermediate_size");
  // Releases of transformers write one of two keys.
  const bool local = fields.Has("num_local_experts");
  config.experts = fields.Size(qwen && !local ? "num_experts" : "num_local_experts");
  config.choices = fields.Size("num_experts_per_tok");
  if (config.choices > config.experts) {
    fields.Refuse("num_experts_per_tok",
                  absl::StrCat("is more than the ", config.experts, " experts"));
  }
  fields.Require("router_jitter_noise", 0);
  if (!qwen) return;
  config.normalized = fields.Bool("norm_topk_prob", false);
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
  config.layers = fields.Size("num_hidden_layers");
  config.hidden = fields.Size("hidden_size");
  if (config.has_experts()) {
    ReadExperts(fields, config);
  } else {
    config.inner = fields.Size("intermediate_size");
  }
  config.heads = fields.Size("num_attention_heads");
  // The defaults of the other families differ between releases of transformers.
  if (type != "llama" && !fields.Contains("num_key_value_heads")) {
    fields.Refuse("num_key_value_heads", "is missing");
  }
  config.groups = fields.Size("num_key_value_heads", config.heads);
  config.positions = fields.Size("max_position_embeddings", DefaultPositions(type));
  const bool needs_head_dim = !fields.Has("head_dim") && type != "qwen3";
  if (needs_head_dim && config.hidden % config.heads != 0) {
    fields.Refuse("num_attention_heads",
                  absl::StrCat("does not divide \"hidden_size\": ", config.hidden));
  }
  config.head_dim = fields.Size("head_dim", type == "qwen3" ? 128 : config.hidden / config.heads);
  if (config.heads % config.groups != 0) {
    fields.Refuse("num_key_value_heads",
                  absl::StrCat("does not divide \"num_attention_heads\": ", config.heads));
  }
  if (config.head_dim % 2 != 0) fields.Refuse("head_dim", "is odd");
  config.norm_epsilon = fields.Number("rms_norm_eps", type == "mixtral" ? 1e-5 : 1e-6);
  config.tied = fields.Bool("tie_word_embeddings", false);
  config.rotary_theta =
      fields.Number("rope_theta", type == "mixtral" ? kMixtralTheta : kDefaultTheta);
  // Releases of transformers read one or the other, so both must say the same.
  constexpr const char *kScaling = "rope_scaling", *kParameters = "rope_parameters";
  const auto has = [&](const char* key) { return fields.Has(key) && !fields.Find(key)->empty(); };
  HuggingFaceConfig other = config;
  if (has(kScaling)) ReadRotary(fields, where, kScaling, config);
  if (has(kParameters)) ReadRotary(fields, where, kParameters, other);
  if (has(kScaling) && has(kParameters) && other != config) {
    fields.Refuse(kParameters,
                  absl::StrCat("contradicts \"", kScaling, "\", with the theta of each"),
                  kOneOfBoth);
  }
  if (!has(kScaling)) config = other;
  if (config.rotary_theta <= 0) fields.Refuse("rope_theta", "is not above 0");
  ReadWindow(fields, config);
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
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", c.model_type},
          {"activation_function", "gelu_new"},
          {"n_layer", c.layers},
          {"n_embd", c.hidden},
          {"n_head", c.heads},
          {"n_inner", nullptr},
          {"n_positions", c.positions},
          {"n_ctx", c.positions},
          {"layer_norm_epsilon", c.norm_epsilon},
          {"embd_pdrop", c.dropout},
          {"attn_pdrop", c.dropout},
          {"resid_pdrop", c.dropout}};
}

void AddExperts(const HuggingFaceConfig& c, Json& json) {
  json["num_experts_per_tok"] = c.choices;
  if (c.model_type == "mixtral") {
    json["num_local_experts"] = c.experts;
    return;
  }
  json["num_experts"] = c.experts;
  json["moe_intermediate_size"] = c.inner;
  // The width of the MLP of a layer without experts; there is none. Published models say the same.
  json["intermediate_size"] = c.choices * c.inner;
  json["norm_topk_prob"] = c.normalized;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = Json::array();
  json["use_sliding_window"] = c.window > 0;
  json["sliding_window"] = c.window > 0 ? Json(c.window) : Json(nullptr);
}

Json LlamaJson(const HuggingFaceConfig& c) {
  constexpr std::pair<const char*, const char*> kArchitectures[] = {
      {"llama", "LlamaForCausalLM"},     {"mistral", "MistralForCausalLM"},
      {"mixtral", "MixtralForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},     {"qwen3_moe", "Qwen3MoeForCausalLM"}};
  const auto* const found = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                         [&](const auto& a) { return a.first == c.model_type; });
  Json json = {{"architectures", {found->second}},
               {"model_type", c.model_type},
               {"hidden_act", "silu"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"intermediate_size", c.inner},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.groups},
               {"head_dim", c.head_dim},
               {"max_position_embeddings", c.positions},
               {"rms_norm_eps", c.norm_epsilon},
               {"rope_theta", c.rotary_theta},
               {"rope_scaling", nullptr},
               {"attention_dropout", 0.0}};
  if (c.scaling) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", c.scaling->factor},
                            {"low_freq_factor", c.scaling->low_frequency_factor},
                            {"high_freq_factor", c.scaling->high_frequency_factor},
                            {"original_max_position_embeddings", c.scaling->original_positions}};
  }
  const Json window = c.window > 0 ? Json(c.window) : Json(nullptr);
  if (c.model_type == "mistral" || c.model_type == "mixtral") json["sliding_window"] = window;
  if (c.model_type == "qwen2" || c.model_type == "qwen3") {
    json["use_sliding_window"] = c.window > 0;
    json["sliding_window"] = window;
    json["max_window_layers"] = c.window > 0 ? 0 : c.layers;
  }
  if (c.model_type == "llama") json["mlp_bias"] = false;
  if (c.model_type == "llama" || c.has_qk_norm()) json["attention_bias"] = false;
  if (c.has_experts()) AddExperts(c, json);
  return json;
}

}  // namespace

absl::StatusOr<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text,
                                                         const std::string& where,
                                                         std::string_view generation,
                                                         const std::string& where_generation) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJson(text, where));
  ConfigFields fields(json, where);
  HuggingFaceConfig config;
  config.model_type = fields.String("model_type", "");
  const bool known = std::find(std::begin(kFamilies), std::end(kFamilies), config.model_type) !=
                     std::end(kFamilies);
  if (!known) {
    const std::string why = fields.Has("model_type") ? "is not supported" : "is missing";
    fields.Refuse("model_type", why, "use a model of one of " + absl::StrJoin(kFamilies, ", "));
    return fields.status();
  }
  ReadCommon(fields, config);
  if (config.is_gpt2()) {
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
  json["vocab_size"] = config.vocab;
  json["tie_word_embeddings"] = config.tied;
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
