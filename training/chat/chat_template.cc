#include "training/chat/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/bpe_pipeline.h"
#include "training/tokenizer/tokenizer_files.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kDefault[] = "default";
constexpr char kField[] = "chat_template";
constexpr std::string_view kEnd = ".jinja";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The folders that hold the files: of a checkpoint's step, those of the model are in one below.
std::vector<std::string> FoldersToRead(const std::string& spec) {
  std::string folder = spec.starts_with(kGpt2) ? spec.substr(kGpt2.size()) : spec;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) folder = fs::path(folder).parent_path().string();
  if (folder.empty()) folder = ".";
  return {folder + "/model", folder};
}

// An object; null where there is no such file.
absl::StatusOr<Json> ReadJsonObject(const std::string& path) {
  if (!Exists(path)) return Json();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, "it is beside the model's weights"));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return InputError(path, "is not a JSON object", "download it again");
}

// A template, or a list of {"name": ..., "template": ...}.
absl::Status TakeTemplates(const Json& json, const std::string& path,
                           std::map<std::string, std::string>* sources) {
  const auto field = json.is_object() ? json.find(kField) : json.end();
  if (!json.is_object() || field == json.end() || field->is_null()) return absl::OkStatus();
  if (field->is_string()) {
    (*sources)[kDefault] = field->get<std::string>();
    return absl::OkStatus();
  }
  const auto is_text = [](const Json& entry, const char* name) {
    return entry.is_object() && entry.contains(name) && entry[name].is_string();
  };
  const bool list = field->is_array() && std::ranges::all_of(*field, [&](const Json& entry) {
                      return is_text(entry, "name") && is_text(entry, "template");
                    });
  if (!list) {
    return InputError(path, "its chat_template is neither text nor a list of named templates",
                      "download it again");
  }
  for (const Json& entry : *field) {
    (*sources)[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status TakeFiles(const std::string& folder, std::map<std::string, std::string>* sources) {
  const std::string path = folder + "/chat_template.jinja",
                    more = folder + "/additional_chat_templates";
  if (Exists(path)) {
    ASSIGN_OR_RETURN((*sources)[kDefault], ReadFile(path, "it is the template of chats"));
  }
  std::error_code error;
  for (fs::directory_iterator entry(more, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.ends_with(kEnd)) continue;
    ASSIGN_OR_RETURN((*sources)[name.substr(0, name.size() - kEnd.size())],
                     ReadFile(entry->path(), "it is a template of chats"));
  }
  return absl::OkStatus();
}

// Tokens are texts, or objects with them. Those that are there already stay.
void TakeTokens(const Json& json, std::map<std::string, std::string>* variables) {
  const auto take = [&](const std::string& name, const Json& token) {
    const bool object = token.is_object() && token.contains("content");
    const Json& text = object ? token["content"] : token;
    if (text.is_string()) variables->emplace(name, text.get<std::string>());
  };
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    take(name, FindField(json, name));
  }
  const Json& extra = FindField(json, "extra_special_tokens");
  if (!extra.is_object()) return;
  for (const auto& [name, token] : extra.items()) take(name, token);
}

// Classes whose tokens transformers knows where the files do not say them.
void TakeTokensOfClass(const Json& config, std::map<std::string, std::string>* variables) {
  const Json& name = FindField(config, "tokenizer_class");
  if (!name.is_string()) return;
  const std::string text = name.get<std::string>();
  const auto is = [&](std::string_view family) { return text.starts_with(family); };
  const auto usual = [&](const char* variable, const char* token) {
    if (!config.contains(variable)) variables->emplace(variable, token);
  };
  if (is("LlamaTokenizer") || is("CodeLlamaTokenizer")) {
    usual("bos_token", "<s>");
    usual("eos_token", "</s>");
    usual("unk_token", "<unk>");
  } else if (is("GPT2Tokenizer")) {
    usual("bos_token", "<|endoftext|>");
    usual("eos_token", "<|endoftext|>");
    usual("unk_token", "<|endoftext|>");
  } else if (is("Qwen2Tokenizer")) {
    usual("eos_token", "<|endoftext|>");
    usual("unk_token", "<|endoftext|>");
    usual("pad_token", "<|endoftext|>");
  } else if (is("GemmaTokenizer")) {
    usual("bos_token", "<bos>");
    usual("eos_token", "<eos>");
    usual("unk_token", "<unk>");
    usual("pad_token", "<pad>");
  }
}

}  // namespace

absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& spec, const std::string& file) {
  ChatTemplate made;
  const std::vector<std::string> folders = FoldersToRead(spec);
  for (const std::string& folder : folders) {
    std::map<std::string, std::string> sources;
    if (file.empty()) RETURN_IF_ERROR(TakeFiles(folder, &sources));
    const std::string path = folder + "/tokenizer_config.json";
    ASSIGN_OR_RETURN(const Json config, ReadJsonObject(path));
    if (sources.empty()) RETURN_IF_ERROR(TakeTemplates(config, path, &sources));
    if (sources.empty()) {
      const std::string old = folder + "/chat_template.json";
      ASSIGN_OR_RETURN(const Json json, ReadJsonObject(old));
      RETURN_IF_ERROR(TakeTemplates(json, old, &sources));
    }
    if (made.sources.empty()) made.sources = std::move(sources);
    TakeTokens(config, &made.variables);
    ASSIGN_OR_RETURN(const Json map, ReadJsonObject(folder + "/special_tokens_map.json"));
    TakeTokens(map, &made.variables);
    TakeTokensOfClass(config, &made.variables);
  }
  if (!file.empty()) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(file, "it is the template of chats"));
    made.sources = {{kDefault, std::move(text)}};
  }
  if (!made.sources.empty()) return made;
  return InputError(folders.back(),
                    "holds no template of chats: no chat_template.jinja, and no "
                    "chat_template in tokenizer_config.json",
                    "take the folder of a model that was tuned for chats, or name a template with "
                    "--chat_template=FILE");
}

absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& folder) {
  return ReadChatTemplate(folder, "");
}

}  // namespace oneflow
