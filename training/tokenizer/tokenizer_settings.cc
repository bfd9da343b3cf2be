#include "training/tokenizer/tokenizer_settings.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/bpe_pipeline.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

// Llama's.
constexpr char kUsualBos[] = "<s>", kUsualEos[] = "</s>";

// Null where there is no such file, or no object in it.
absl::StatusOr<Json> ReadObject(const std::string& path, std::string* bytes = nullptr) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Json();
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, "it is beside the files of the tokenizer"));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (bytes != nullptr) *bytes = std::move(text);
  return json.is_object() ? json : Json();
}

std::optional<bool> FindBool(const Json& json, const char* key) {
  const Json& value = FindField(json, key);
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

std::string FindString(const Json& json, const char* key) {
  const Json& value = FindField(json, key);
  return value.is_string() ? value.get<std::string>() : "";
}

// A token is a text, or an object with it.
std::string FindToken(const Json& json, const char* key) {
  const Json& token = FindField(json, key);
  return token.is_object() ? FindString(token, "content") : FindString(json, key);
}

// One id or a list of them.
void AddIds(const Json& json, const char* key, std::vector<int64_t>* ids) {
  const Json& value = FindField(json, key);
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    if (!id.is_number_integer()) continue;
    const auto number = id.get<int64_t>();
    if (std::find(ids->begin(), ids->end(), number) == ids->end()) ids->push_back(number);
  }
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// A token that has a name is special, whatever its own entry says.
std::vector<std::string> ListSpecial(const Json& config) {
  std::vector<std::string> special;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
                          "cls_token", "mask_token"}) {
    special.push_back(FindToken(config, key));
  }
  for (const Json& token : FindField(config, "additional_special_tokens")) {
    special.push_back(token.is_string() ? token.get<std::string>() : FindString(token, "content"));
  }
  return special;
}

}  // namespace

// Without a class it is the one that transformers takes for the type of model.
bool TokenizerSettings::IsLlama() const {
  return class_name.empty() ? Contains({"llama", "mistral", "mixtral"}, model_type)
                            : Contains({"LlamaTokenizer", "LlamaTokenizerFast",
                                        "CodeLlamaTokenizer", "CodeLlamaTokenizerFast"},
                                       class_name);
}

bool TokenizerSettings::IsQwen() const {
  return class_name.empty() ? Contains({"qwen2", "qwen3", "qwen3_moe"}, model_type)
                            : Contains({"Qwen2Tokenizer", "Qwen2TokenizerFast"}, class_name);
}

std::string TokenizerSettings::TextToKeep(bool needs_class, const std::string& end_of_text) const {
  nlohmann::ordered_json kept = config;
  if (needs_class && class_name.empty() && (IsLlama() || IsQwen())) {
    kept["tokenizer_class"] = IsLlama() ? "LlamaTokenizer" : "Qwen2Tokenizer";
  }
  const auto keep = [&](const char* key, const std::string& token, const char* usual) {
    if (!token.empty() && token != usual && !config.contains(key)) kept[key] = token;
  };
  keep("bos_token", bos, kUsualBos);
  keep("eos_token", end_of_text.empty() ? eos : end_of_text, kUsualEos);
  return kept == config ? bytes : JsonText(kept, 2) + "\n";
}

absl::StatusOr<TokenizerSettings> ReadTokenizerSettings(const std::string& folder) {
  TokenizerSettings made{.path = folder + "/tokenizer_config.json"};
  ASSIGN_OR_RETURN(const Json config, ReadObject(made.path, &made.bytes));
  if (!made.bytes.empty()) {
    made.config = nlohmann::ordered_json::parse(made.bytes, nullptr, /*allow_exceptions=*/false);
    if (!made.config.is_object()) {
      return InputError(made.path, "is not a JSON object", "download it again");
    }
  }
  ASSIGN_OR_RETURN(const Json map, ReadObject(folder + "/special_tokens_map.json"));
  ASSIGN_OR_RETURN(const Json generation, ReadObject(folder + "/generation_config.json"));
  ASSIGN_OR_RETURN(const Json model, ReadObject(folder + "/config.json"));
  made.class_name = FindString(config, "tokenizer_class");
  made.model_type = FindString(model, "model_type");
  made.add_bos = FindBool(config, "add_bos_token");
  made.add_eos = FindBool(config, "add_eos_token");
  made.add_prefix_space = FindBool(config, "add_prefix_space");
  made.legacy = FindBool(config, "legacy");
  for (const auto& [token, key, usual] :
       {std::tuple{&made.bos, "bos_token", kUsualBos}, {&made.eos, "eos_token", kUsualEos}}) {
    *token = FindToken(config, key);
    if (token->empty()) *token = FindToken(map, key);
    if (token->empty() && !config.contains(key) && made.IsLlama()) *token = usual;
  }
  for (const Json* json : {&generation, &model}) {
    AddIds(*json, "eos_token_id", &made.eos_ids);
    std::vector<int64_t> begin;
    AddIds(*json, "bos_token_id", &begin);
    if (!made.bos_id && !begin.empty()) made.bos_id = begin[0];
  }
  const Json& added = FindField(config, "added_tokens_decoder");
  if (!added.is_object()) return made;
  const std::vector<std::string> special = ListSpecial(config);
  for (const auto& [key, token] : added.items()) {
    int64_t id = 0;
    if (!token.is_object() || !absl::SimpleAtoi(key, &id)) continue;
    made.added.push_back(token);
    made.added.back()["id"] = id;
    if (Contains(special, FindString(token, "content"))) made.added.back()["special"] = true;
  }
  return made;
}

}  // namespace oneflow
