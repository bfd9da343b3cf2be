#include "training/hugging_face/model_config.h"

#include <glog/logging.h>
#include <google/protobuf/text_format.h>

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
#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/recipe/field_text.h"
#include "training/hugging_face/config_fields.h"
#include "training/hugging_face/model_types.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> kElementTypes[] = {
    {"float32", "f32"}, {"bfloat16", "bf16"}, {"float16", "f16"}};
constexpr const char* kTextConfig = "text_config";

// Numbers of which config.json says nothing: those that act in training alone, and how a GPT is
// computed.
constexpr std::string_view kNotInConfig[] = {
    "capacity",         "slots", "slot_groups", "aux_loss_coeff", "z_loss_coeff",
    "routed_positions", "masks", "attention",   "next_tokens",    "next_tokens_coeff"};

proto::Model ReadDefaults(std::string_view family) {
  proto::Model model;
  for (const Family& known : Families()) {
    if (known.name != family) continue;
    CHECK(google::protobuf::TextFormat::ParseFromString(known.defaults, &model));
  }
  model.set_family(std::string(family));
  return ClearTraining(std::move(model));
}

void ReadQuantization(ConfigFields& fields, const ModelType& type) {
  constexpr const char* kKey = "quantization_config";
  const Json* const value = fields.Find(kKey);
  if (value == nullptr) return;
  if (!type.quantization.empty() && value->is_object() &&
      value->value("quant_method", Json()) == type.quantization) {
    return;
  }
  fields.Refuse(kKey, "is not supported",
                "use a model of transformers itself, with weights that are not quantized");
}

// Keys of all types. `top`: of the outermost object.
void ReadCommon(ConfigFields& fields, ConfigFields& top, HuggingFaceConfig& config) {
  config.model.set_vocab(fields.Size("vocab_size"));
  ConfigFields& ids = top.Has("eos_token_id") ? top : fields;
  config.end_ids = ids.Ids("eos_token_id");
  // Some folders have a list of one.
  const std::vector<int64_t> begin = (top.Has("bos_token_id") ? top : fields).Ids("bos_token_id");
  if (!begin.empty()) config.begin_id = begin[0];
  for (ConfigFields* const object : {&fields, &top}) {
    const std::string dtype = object->String("dtype", object->String("torch_dtype", ""));
    for (const auto& [theirs, ours] : kElementTypes) {
      if (dtype == theirs) config.dtype = ours;
    }
  }
  for (const char* key : {"add_cross_attention", "is_encoder_decoder"}) fields.Require(key, false);
  if (top.Has("auto_map")) {
    top.Refuse("auto_map", "is not supported",
               "use a model of transformers itself, with weights that are not quantized");
  }
  if (const Json* pruned = fields.Find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    fields.Refuse("pruned_heads", "is not supported");
  }
}

Json IdsJson(const std::vector<int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids[0]) : Json(ids);
}

// The model type that a type is written as.
const ModelType& FindWritten(const HuggingFaceConfig& config) {
  const ModelType& type = *FindModelType(config.model_type);
  return type.written_as.empty() ? type : *FindModelType(type.written_as);
}

}  // namespace

bool operator==(const HuggingFaceConfig& a, const HuggingFaceConfig& b) {
  const auto rest = [](const HuggingFaceConfig& c) {
    return std::tie(c.model_type, c.end_ids, c.begin_id, c.dtype);
  };
  return rest(a) == rest(b) && a.model.family() == b.model.family() &&
         ListDifferences(a.model, b.model).empty() && ListDifferences(b.model, a.model).empty();
}

bool IsHuggingFaceFamily(std::string_view model_type) {
  return FindModelType(model_type) != nullptr;
}

proto::Model ClearTraining(proto::Model model) {
  for (const std::string_view name : kNotInConfig) ClearField(*FindRow(ModelRows(), name), &model);
  return model;
}

absl::StatusOr<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text,
                                                         const std::string& where,
                                                         std::string_view generation,
                                                         const std::string& where_generation) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJson(text, where));
  ConfigFields top(json, where);
  HuggingFaceConfig config;
  config.model_type = top.String("model_type", "");
  const ModelType* const type = FindModelType(config.model_type);
  if (type == nullptr) {
    std::vector<std::string> names;
    for (const ModelType& known : ModelTypes()) names.emplace_back(known.name);
    const std::string why = top.Has("model_type") ? "is not supported" : "is missing";
    top.Refuse("model_type", why, "use a model of one of " + absl::StrJoin(names, ", "));
    return top.status();
  }
  const bool nested = !type->written_as.empty();
  if (nested && (!top.Has(kTextConfig) || !top.Find(kTextConfig)->is_object())) {
    top.Refuse(kTextConfig, top.Has(kTextConfig) ? "is no object" : "is missing");
    return top.status();
  }
  Json filled = nested ? *top.Find(kTextConfig) : json;
  // The head's tie is that of the model with its other parts.
  constexpr const char* kTied = "tie_word_embeddings";
  if (nested) filled.erase(kTied);
  if (nested && top.Has(kTied)) filled[kTied] = *top.Find(kTied);
  const Json defaults = Json::parse(type->defaults);
  for (const auto& [key, value] : defaults.items()) {
    if (!filled.contains(key)) filled[key] = value;
  }
  ConfigFields fields(filled, where, nested ? absl::StrCat(kTextConfig, ".") : "");
  config.model = ReadDefaults(type->family);
  ReadQuantization(top, *type);
  ReadCommon(fields, top, config);
  type->read(fields, config);
  RETURN_IF_ERROR(top.status());
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
  const ModelType& type = FindWritten(config);
  Json json = {{"architectures", {type.architecture}}, {"model_type", type.name}};
  type.write(config, json);
  json["vocab_size"] = config.model.vocab();
  json["tie_word_embeddings"] = config.model.tied();
  json["bos_token_id"] = config.begin_id ? Json(*config.begin_id) : Json(nullptr);
  json["eos_token_id"] = IdsJson(config.end_ids);
  for (const auto& [theirs, ours] : kElementTypes) {
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
