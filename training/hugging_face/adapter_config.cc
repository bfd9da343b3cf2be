#include "training/hugging_face/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

using AdapterJson = nlohmann::ordered_json;

// Settings that change what an adapter computes: any value but null, false, 0, "none" and an empty
// list or object is refused.
constexpr std::string_view kUnknownSettings[] = {"alora_invocation_tokens",
                                                 "alpha_pattern",
                                                 "arrow_config",
                                                 "bias",
                                                 "kasa_config",
                                                 "layer_replication",
                                                 "layers_to_transform",
                                                 "lora_bias",
                                                 "megatron_config",
                                                 "monteclora_config",
                                                 "rank_pattern",
                                                 "target_parameters",
                                                 "trainable_token_indices",
                                                 "use_bdlora",
                                                 "use_dora",
                                                 "use_qalora",
                                                 "velora_config"};
// Initial values that leave the base as it is; true and false do, too.
constexpr std::string_view kKeepBase[] = {"gaussian", "eva", "orthogonal"};

bool IsNothing(const AdapterJson& value) {
  return value.is_null() || value == false || value == "none" ||
         (value.is_number() && value == 0) || (value.is_structured() && value.empty());
}

class AdapterFields {
 public:
  AdapterFields(const AdapterJson& json, const std::string& where) : json_(json), where_(where) {}

  const AdapterJson* Find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  absl::Status Refuse(std::string_view key, const std::string& hint) const {
    return InputError(where_,
                      absl::StrCat("\"", ToAbsl(key), "\": ", json_.at(std::string(key)).dump(),
                                   " has no equivalent here"),
                      hint);
  }
  absl::StatusOr<double> Number(const char* key, double absent, double least) const {
    const AdapterJson* const value = Find(key);
    if (value == nullptr) return absent;
    if (value->is_number() && std::isfinite(value->get<double>()) &&
        value->get<double>() >= least) {
      return value->get<double>();
    }
    return Refuse(key, absl::StrCat("use a number of at least ", least));
  }
  absl::StatusOr<bool> Bool(const char* key) const {
    const AdapterJson* const value = Find(key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    return Refuse(key, "use true or false");
  }
  absl::StatusOr<std::string> String(const char* key) const {
    const AdapterJson* const value = Find(key);
    if (value == nullptr) return std::string();
    if (value->is_string()) return value->get<std::string>();
    return Refuse(key, "use a text");
  }
  // A text is a list of one.
  absl::StatusOr<std::vector<std::string>> Strings(const char* key) const {
    std::vector<std::string> strings;
    const AdapterJson* const value = Find(key);
    if (value == nullptr) return strings;
    if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
    if (!value->is_array()) return Refuse(key, "use a list of names");
    for (const AdapterJson& one : *value) {
      if (!one.is_string()) return Refuse(key, "use a list of names");
      strings.push_back(one.get<std::string>());
    }
    return strings;
  }

 private:
  const AdapterJson& json_;
  const std::string& where_;
};

constexpr char kMerge[] = "merge it with merge_and_unload of peft, and import the model";

// 32, not 32.0: PEFT has an integer there.
AdapterJson NumberToWrite(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return static_cast<int64_t>(number);
  return number;
}

}  // namespace

bool IsAdapterFolder(const std::string& path) {
  return PathExists(path + "/" + kAdapterConfig) && !PathExists(path + "/config.json");
}

absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text, const std::string& where) {
  ASSIGN_OR_RETURN(const AdapterJson json, ParseStrictJson(text, where));
  const AdapterFields fields(json, where);
  ASSIGN_OR_RETURN(const std::string type, fields.String("peft_type"));
  if (type != "LORA") {
    return InputError(where, absl::StrCat("is of peft_type ", type.empty() ? "none" : type),
                      "use an adapter of type LORA, or merge it with merge_and_unload of peft");
  }
  for (const std::string_view key : kUnknownSettings) {
    const AdapterJson* const value = fields.Find(std::string(key).c_str());
    if (value != nullptr && !IsNothing(*value)) return fields.Refuse(key, kMerge);
  }
  const AdapterJson* const init = fields.Find("init_lora_weights");
  if (init != nullptr && !init->is_boolean() &&
      std::ranges::none_of(kKeepBase, [&](std::string_view kept) {
        return init->is_string() && init->get<std::string>() == kept;
      })) {
    return fields.Refuse("init_lora_weights", kMerge);
  }
  AdapterConfig config;
  ASSIGN_OR_RETURN(const double rank, fields.Number("r", 8, 1));
  if (rank != std::floor(rank) || rank > 65536) return fields.Refuse("r", "use a rank");
  config.lora.set_rank(static_cast<int64_t>(rank));
  ASSIGN_OR_RETURN(const double alpha, fields.Number("lora_alpha", 8, -1e30));
  config.lora.set_alpha(alpha);
  ASSIGN_OR_RETURN(const double dropout, fields.Number("lora_dropout", 0, 0));
  if (dropout >= 1) return fields.Refuse("lora_dropout", "use a rate below 1");
  config.lora.set_dropout(dropout);
  ASSIGN_OR_RETURN(const bool rslora, fields.Bool("use_rslora"));
  config.lora.set_rslora(rslora);
  ASSIGN_OR_RETURN(config.fan_in_fan_out, fields.Bool("fan_in_fan_out"));
  ASSIGN_OR_RETURN(config.base, fields.String("base_model_name_or_path"));
  ASSIGN_OR_RETURN(config.targets, fields.Strings("target_modules"));
  ASSIGN_OR_RETURN(config.saved_modules, fields.Strings("modules_to_save"));
  return config;
}

absl::StatusOr<AdapterConfig> ReadAdapterConfig(const std::string& folder) {
  const std::string path = folder + "/" + kAdapterConfig;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseAdapterConfig(text, path);
}

std::string AdapterConfigText(const AdapterConfig& config) {
  const AdapterJson saved =
      config.saved_modules.empty() ? AdapterJson() : AdapterJson(config.saved_modules);
  const double alpha =
      config.lora.has_alpha() ? config.lora.alpha() : 2 * static_cast<double>(config.lora.rank());
  const AdapterJson json = {{"peft_type", "LORA"},
                            {"task_type", "CAUSAL_LM"},
                            {"base_model_name_or_path", config.base},
                            {"inference_mode", true},
                            {"r", config.lora.rank()},
                            {"lora_alpha", NumberToWrite(alpha)},
                            {"lora_dropout", config.lora.dropout()},
                            {"use_rslora", config.lora.rslora()},
                            {"use_dora", false},
                            {"fan_in_fan_out", config.fan_in_fan_out},
                            {"bias", "none"},
                            {"init_lora_weights", true},
                            {"layers_to_transform", nullptr},
                            {"layers_pattern", nullptr},
                            {"rank_pattern", AdapterJson::object()},
                            {"alpha_pattern", AdapterJson::object()},
                            {"modules_to_save", saved},
                            {"target_modules", config.targets}};
  return JsonText(json, 2) + "\n";
}

}  // namespace oneflow
