#include "actor_runtime/tokenizer/bpe_pipeline.h"

#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

bool IsSet(const Json& value) {
  return !value.is_null() && value != false && value != "" && value != 0.0;
}

// What a step of a pipeline is, for errors.
std::string StepText(const Json& step) {
  if (FindField(step, "type") != "Sequence") return JsonText(FindField(step, "type"));
  std::string text;
  for (const char* key : {"normalizers", "pretokenizers"}) {
    for (const Json& one : FindField(step, key)) {
      text += (text.empty() ? "" : ", ") + JsonText(FindField(one, "type"));
    }
  }
  return "a sequence of " + text;
}

absl::Status CheckModel(const std::string& path, const Json& model) {
  const Json& type = FindField(model, "type");
  if (!type.is_null() && type != "BPE") {
    return UnsupportedTokenizer(path, "its model is " + JsonText(type));
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (IsSet(FindField(model, key))) {
      return UnsupportedTokenizer(path, std::string("its model sets ") + key);
    }
  }
  return absl::OkStatus();
}

// The pattern of a ByteLevel that splits by GPT-2's, or of a Split before a ByteLevel that does
// not.
absl::StatusOr<const WordPattern*> ReadPattern(const std::string& path, const Json& split) {
  const auto check_level = [&](const Json& level, bool splits) {
    if (!IsSet(FindField(level, "add_prefix_space")) &&
        (FindField(level, "use_regex") != false) == splits) {
      return absl::OkStatus();
    }
    return UnsupportedTokenizer(
        path, "its pre-tokenizer adds a space to the text, does not split it or splits it twice");
  };
  if (FindField(split, "type") == "ByteLevel") {
    RETURN_IF_ERROR(check_level(split, /*splits=*/true));
    return &kGpt2Words;
  }
  const Json& steps = FindField(split, "pretokenizers");
  if (FindField(split, "type") != "Sequence" || !steps.is_array() || steps.size() != 2 ||
      FindField(steps[0], "type") != "Split" || FindField(steps[1], "type") != "ByteLevel") {
    return UnsupportedTokenizer(path, "its pre-tokenizer is " + StepText(split));
  }
  RETURN_IF_ERROR(check_level(steps[1], /*splits=*/false));
  if (FindField(steps[0], "behavior") != "Isolated" || IsSet(FindField(steps[0], "invert"))) {
    return UnsupportedTokenizer(path, "its pre-tokenizer does not isolate what its pattern finds");
  }
  const Json& regex = FindField(FindField(steps[0], "pattern"), "Regex");
  const WordPattern* pattern =
      regex.is_string() ? FindWordPattern(regex.get_ref<const std::string&>()) : nullptr;
  if (pattern != nullptr) return pattern;
  return UnsupportedTokenizer(
      path, "its pre-tokenizer splits by " + JsonText(FindField(steps[0], "pattern")));
}

bool IsSpaceWriter(const Json& step) {
  return FindField(step, "type") == "Replace" &&
         FindField(FindField(step, "pattern"), "String") == " " &&
         FindField(step, "content") == std::string(kMetaSpace);
}

bool IsPrefixWriter(const Json& step) {
  return FindField(step, "type") == "Prepend" &&
         FindField(step, "prepend") == std::string(kMetaSpace);
}

// sentencepiece's writing of spaces, by the normalizer or else by the pre-tokenizer.
absl::StatusOr<SpaceInFront> ReadSpaces(const std::string& path, const Json& json) {
  const Json &normalizer = FindField(json, "normalizer"), &split = FindField(json, "pre_tokenizer");
  if (!normalizer.is_null()) {
    if (!split.is_null()) {
      return UnsupportedTokenizer(path, "its pre-tokenizer is " + StepText(split));
    }
    if (IsSpaceWriter(normalizer)) return SpaceInFront::kNone;
    const Json& steps = FindField(normalizer, "normalizers");
    if (steps.is_array() && steps.size() == 2 && IsPrefixWriter(steps[0]) &&
        IsSpaceWriter(steps[1])) {
      return SpaceInFront::kAlways;
    }
    return UnsupportedTokenizer(path, "it normalizes text (" + StepText(normalizer) + ")");
  }
  if (FindField(split, "type") != "Metaspace" ||
      FindField(split, "replacement") != std::string(kMetaSpace)) {
    return UnsupportedTokenizer(
        path, "its model sets byte_fallback, and its pre-tokenizer is " + StepText(split));
  }
  if (FindField(split, "split") != false) {
    return UnsupportedTokenizer(path, "its pre-tokenizer splits a text at spaces (Metaspace)");
  }
  const Json& scheme = FindField(split, "prepend_scheme");
  if (scheme == "never") return SpaceInFront::kNone;
  // There are no added tokens in the text: its beginning is the only one.
  if (scheme == "first" || scheme == "always") return SpaceInFront::kUnlessThere;
  return UnsupportedTokenizer(path, "its pre-tokenizer has the prepend_scheme " + JsonText(scheme));
}

}  // namespace

const Json& FindField(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

absl::Status UnsupportedTokenizer(const std::string& path, const std::string& what) {
  return InputError(path, what,
                    "supported are byte-level BPE that splits as GPT-2, Llama 3 or Qwen 2 do, and "
                    "BPE with byte fallback as of Llama 2; if the model has a sentencepiece "
                    "FILE.model, give that");
}

absl::StatusOr<BpeRules> ReadBpeRules(const std::string& path, const Json& json) {
  const Json& model = FindField(json, "model");
  RETURN_IF_ERROR(CheckModel(path, model));
  BpeRules rules;
  rules.ignore_merges = IsSet(FindField(model, "ignore_merges"));
  if (IsSet(FindField(model, "byte_fallback"))) {
    rules.words = nullptr;
    ASSIGN_OR_RETURN(rules.space_in_front, ReadSpaces(path, json));
    return rules;
  }
  const Json& normalizer = FindField(json, "normalizer");
  rules.nfc = FindField(normalizer, "type") == "NFC";
  if (!normalizer.is_null() && !rules.nfc) {
    return UnsupportedTokenizer(path, "it normalizes text (" + StepText(normalizer) + ")");
  }
  ASSIGN_OR_RETURN(rules.words, ReadPattern(path, FindField(json, "pre_tokenizer")));
  return rules;
}

}  // namespace oneflow
