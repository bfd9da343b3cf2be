#include "training/tokenizer/bpe_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/bpe_pipeline.h"

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

absl::Status BadTemplate(const std::string& path) {
  return InputError(path, "its post-processor is not what its type says", "download it again");
}

// ["</s>", 2], as BertProcessing and RobertaProcessing have it.
absl::Status AddPair(const std::string& path, const Json& pair, std::vector<int64_t>* ids) {
  if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_integer()) {
    return BadTemplate(path);
  }
  ids->push_back(pair[1].get<int64_t>());
  return absl::OkStatus();
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
//  "special_tokens": {"<s>": {"ids": [0]}}}
absl::Status AddTemplate(const std::string& path, const Json& processor, BpeListing* listing) {
  std::vector<int64_t>* ids = &listing->begin;
  for (const Json& piece : FindField(processor, "single")) {
    if (const Json& sequence = FindField(piece, "Sequence"); !sequence.is_null()) {
      if (FindField(sequence, "id") != "A" || ids == &listing->end) return BadTemplate(path);
      ids = &listing->end;
      continue;
    }
    const Json& name = FindField(FindField(piece, "SpecialToken"), "id");
    if (!name.is_string()) return BadTemplate(path);
    const Json& special = FindField(FindField(processor, "special_tokens"),
                                    name.get_ref<const std::string&>().c_str());
    const Json& added = FindField(special, "ids");
    if (!added.is_array()) return BadTemplate(path);
    for (const Json& id : added) {
      if (!id.is_number_integer()) return BadTemplate(path);
      ids->push_back(id.get<int64_t>());
    }
  }
  return ids == &listing->end ? absl::OkStatus() : BadTemplate(path);
}

// The ids that one step of a post-processor puts around the outputs of the earlier ones.
absl::Status AddPostProcessor(const std::string& path, const Json& processor, BpeListing* listing) {
  const Json& type = FindField(processor, "type");
  if (type == "ByteLevel") return absl::OkStatus();  // it changes offsets, not ids
  if (type == "TemplateProcessing") return AddTemplate(path, processor, listing);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    RETURN_IF_ERROR(AddPair(path, FindField(processor, "cls"), &listing->begin));
    return AddPair(path, FindField(processor, "sep"), &listing->end);
  }
  return UnsupportedTokenizer(path, "its post-processor is " + JsonText(type));
}

absl::Status AddPostProcessors(const std::string& path, const Json& processor,
                               BpeListing* listing) {
  for (const Json* step : ListSteps(processor, "processors")) {
    BpeListing around;
    RETURN_IF_ERROR(AddPostProcessor(path, *step, &around));
    listing->begin.insert(listing->begin.begin(), around.begin.begin(), around.begin.end());
    listing->end.insert(listing->end.end(), around.end.begin(), around.end.end());
  }
  return absl::OkStatus();
}

std::optional<int64_t> FindId(const BpeListing& listing, const std::string& token) {
  if (token.empty()) return std::nullopt;
  for (const AddedToken& added : listing.added) {
    if (added.text == token) return added.id;
  }
  for (const auto& [text, id] : listing.vocab) {
    if (text == token) return id;
  }
  return std::nullopt;
}

// Adds what the files beside the vocabulary say of it. `places_ends`: they say also which tokens
// stand around a text.
void AddSettings(const TokenizerSettings& settings, bool places_ends, BpeListing* listing) {
  const std::optional<int64_t> bos = FindId(*listing, settings.bos);
  const std::optional<int64_t> eos = FindId(*listing, settings.eos);
  listing->begin_of_text = bos ? bos : settings.bos_id;
  if (eos) listing->ends.push_back(*eos);
  listing->ends.insert(listing->ends.end(), settings.eos_ids.begin(), settings.eos_ids.end());
  BpeRules& rules = listing->rules;
  if (settings.add_prefix_space && rules.words == &kGpt2Words) {
    rules.space_in_front =
        *settings.add_prefix_space ? SpaceInFront::kUnlessThere : SpaceInFront::kNone;
  } else if (settings.add_prefix_space == false && settings.IsLlama()) {
    rules.space_in_front = SpaceInFront::kNone;
  }
  if (!places_ends || (!settings.add_bos && !settings.add_eos)) return;
  // A token that is to be added and is not named is left to the post-processor.
  const auto put = [](bool adds, std::optional<int64_t> id, std::vector<int64_t>* ids) {
    if (!adds) ids->clear();
    if (adds && id) *ids = {*id};
  };
  put(settings.add_bos.value_or(settings.IsLlama()), bos, &listing->begin);
  put(settings.add_eos.value_or(false), eos, &listing->end);
}

// A file beside the vocabulary that adds tokens to it: it does not say which of them are special,
// and the others would be found in texts.
absl::Status CheckNoAdded(const std::string& folder, const BpeListing& listing) {
  const std::string path = folder + "/added_tokens.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Json added, ReadJson(path));
  size_t unknown = 0;
  for (const auto& [token, id] : added.items()) {
    unknown += std::any_of(listing.added.begin(), listing.added.end(),
                           [&](const AddedToken& known) { return known.text == token; })
                   ? 0
                   : 1;
  }
  if (unknown == 0) return absl::OkStatus();
  return InputError(path,
                    "adds " + std::to_string(unknown) +
                        " tokens to vocab.json, and does not say which of them are special",
                    "give the model's tokenizer.json, which does, instead of the folder");
}

// GPT-2's token is special also where no file lists it.
void AddEndOfText(BpeListing* listing) {
  const std::string text(kEndOfText);
  const auto is_listed = [&](const AddedToken& token) { return token.text == text; };
  if (std::any_of(listing->added.begin(), listing->added.end(), is_listed)) return;
  if (const std::optional<int64_t> id = FindId(*listing, text)) {
    listing->added.push_back({text, *id, /*special=*/true});
  }
}

}  // namespace

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const std::string& path,
                                                         const Json& added) {
  std::vector<AddedToken> tokens;
  for (const Json& token : added) {
    const Json &id = FindField(token, "id"), &content = FindField(token, "content");
    if (!id.is_number_integer() || !content.is_string()) {
      return InputError(path, "added token " + JsonText(token) + " has no id and content",
                        "download it again");
    }
    const auto is_set = [&](const char* key) { return FindField(token, key) == true; };
    tokens.push_back({content.get<std::string>(), id.get<int64_t>(), is_set("special"),
                      is_set("normalized"), is_set("single_word"), is_set("lstrip"),
                      is_set("rstrip")});
  }
  return tokens;
}

absl::StatusOr<BpeVocabulary> ReadGpt2Folder(const std::string& folder,
                                             const TokenizerSettings& settings) {
  const std::string vocab = folder + "/vocab.json", merges = folder + "/merges.txt";
  BpeListing listing;
  if (settings.IsQwen()) listing.rules = {.words = &kQwen2Words, .nfc = true};
  ASSIGN_OR_RETURN(listing.added, ParseAddedTokens(settings.path, settings.added));
  RETURN_IF_ERROR(CheckNoAdded(folder, listing));
  ASSIGN_OR_RETURN(const Json json, ReadJson(vocab));
  RETURN_IF_ERROR(AddVocab(vocab, json, &listing));
  AddEndOfText(&listing);
  ASSIGN_OR_RETURN(const std::string lines, ReadFile(merges, "it stands beside vocab.json"));
  RETURN_IF_ERROR(AddMergeLines(merges, lines, &listing));
  AddSettings(settings, /*places_ends=*/true, &listing);
  return MakeBpeVocabulary(folder, listing);
}

absl::StatusOr<BpeVocabulary> ReadTokenizerJson(const std::string& path,
                                                const TokenizerSettings& settings) {
  ASSIGN_OR_RETURN(const Json json, ReadJson(path));
  const Json& model = FindField(json, "model");
  BpeListing listing;
  ASSIGN_OR_RETURN(listing.rules, ReadBpeRules(path, json));
  RETURN_IF_ERROR(AddVocab(path, FindField(model, "vocab"), &listing));
  RETURN_IF_ERROR(AddMergeList(path, FindField(model, "merges"), &listing));
  ASSIGN_OR_RETURN(listing.added, ParseAddedTokens(path, FindField(json, "added_tokens")));
  RETURN_IF_ERROR(AddPostProcessors(path, FindField(json, "post_processor"), &listing));
  // Other classes leave the file's post-processor as it is.
  AddSettings(settings, /*places_ends=*/settings.IsLlama(), &listing);
  return MakeBpeVocabulary(path, listing);
}

}  // namespace oneflow
