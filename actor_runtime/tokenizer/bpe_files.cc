#include "actor_runtime/tokenizer/bpe_files.h"

#include <sstream>
#include <utility>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;
using StringPair = std::pair<std::string, std::string>;

absl::StatusOr<Json> ReadJson(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(path, "a tokenizer is bytes, gpt2:FOLDER, FILE.json or FILE.model"));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return InputError(path, "is not a JSON object", "download it again");
}

absl::Status AddVocab(const std::string& path, const Json& vocab, BpeListing* listing) {
  if (!vocab.is_object()) {
    return InputError(path, "has no vocabulary", "it maps each token to its id");
  }
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer()) {
      return InputError(path, "the id of token \"" + token + "\" is not a whole number",
                        "it maps each token to its id");
    }
    listing->vocab.emplace_back(token, id.get<int64_t>());
  }
  return absl::OkStatus();
}

// "Ġ the": tokens have no space.
absl::StatusOr<StringPair> ParseMerge(const std::string& path, const std::string& line) {
  const size_t space = line.find(' ');
  if (space != std::string::npos && space > 0 && space + 1 < line.size() &&
      line.find(' ', space + 1) == std::string::npos) {
    return StringPair(line.substr(0, space), line.substr(space + 1));
  }
  return InputError(path, "merge \"" + line + "\" is not two tokens with a space between",
                    "download it again");
}

absl::Status AddMergeLines(const std::string& path, const std::string& text, BpeListing* listing) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.starts_with("#version")) continue;
    ASSIGN_OR_RETURN(StringPair merge, ParseMerge(path, line));
    listing->merges.push_back(std::move(merge));
  }
  return absl::OkStatus();
}

absl::Status AddMergeList(const std::string& path, const Json& merges, BpeListing* listing) {
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      ASSIGN_OR_RETURN(StringPair pair, ParseMerge(path, merge.get<std::string>()));
      listing->merges.push_back(std::move(pair));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      listing->merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      return InputError(path, "merge " + JsonText(merge) + " is not a pair of tokens",
                        "download it again");
    }
  }
  return absl::OkStatus();
}

absl::Status AddSpecial(const std::string& path, const Json& added, BpeListing* listing) {
  for (const Json& token : added) {
    const auto id = token.find("id"), content = token.find("content");
    if (id == token.end() || content == token.end() || !id->is_number_integer() ||
        !content->is_string()) {
      return InputError(path, "added token " + JsonText(token) + " has no id and content",
                        "download it again");
    }
    listing->added.emplace_back(content->get<std::string>(), id->get<int64_t>());
  }
  return absl::OkStatus();
}

absl::Status Unsupported(const std::string& path, const std::string& what) {
  return InputError(path, what, "only byte-level BPE that splits as GPT-2 does is supported");
}

// Null where `key` is absent.
const Json& Field(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

bool IsSet(const Json& value) {
  return !value.is_null() && value != false && value != "" && value != 0.0;
}

// Refuses what would change how text becomes tokens in a way that no GPT-2 file does.
absl::Status CheckPipeline(const std::string& path, const Json& json, const Json& model) {
  const Json& type = Field(model, "type");
  if (!type.is_null() && type != "BPE") {
    return Unsupported(path, "its model is " + JsonText(type));
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback", "ignore_merges"}) {
    if (IsSet(Field(model, key))) return Unsupported(path, std::string("its model sets ") + key);
  }
  const Json& normalizer = Field(json, "normalizer");
  if (!normalizer.is_null()) {
    return Unsupported(path, "it normalizes text (" + JsonText(Field(normalizer, "type")) + ")");
  }
  const Json& split = Field(json, "pre_tokenizer");
  if (Field(split, "type") != "ByteLevel") {
    return Unsupported(path, "its pre-tokenizer is " + JsonText(Field(split, "type")));
  }
  if (IsSet(Field(split, "add_prefix_space")) || Field(split, "use_regex") == false) {
    return Unsupported(path, "its pre-tokenizer adds a space to the text or does not split it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeVocabulary> ReadGpt2Folder(const std::string& folder) {
  const std::string vocab = folder + "/vocab.json", merges = folder + "/merges.txt";
  BpeListing listing;
  ASSIGN_OR_RETURN(const Json json, ReadJson(vocab));
  RETURN_IF_ERROR(AddVocab(vocab, json, &listing));
  ASSIGN_OR_RETURN(const std::string lines, ReadFile(merges, "it stands beside vocab.json"));
  RETURN_IF_ERROR(AddMergeLines(merges, lines, &listing));
  return MakeBpeVocabulary(folder, listing);
}

absl::StatusOr<BpeVocabulary> ReadTokenizerJson(const std::string& path) {
  ASSIGN_OR_RETURN(const Json json, ReadJson(path));
  const Json& model = Field(json, "model");
  RETURN_IF_ERROR(CheckPipeline(path, json, model));
  BpeListing listing;
  RETURN_IF_ERROR(AddVocab(path, Field(model, "vocab"), &listing));
  RETURN_IF_ERROR(AddMergeList(path, Field(model, "merges"), &listing));
  RETURN_IF_ERROR(AddSpecial(path, Field(json, "added_tokens"), &listing));
  return MakeBpeVocabulary(path, listing);
}

}  // namespace oneflow
