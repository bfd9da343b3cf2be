#include "training/tokenizer/bpe_pipeline.h"

#include <utility>

#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/pipeline_reader.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

bool IsSet(const Json& value) {
  return !value.is_null() && value != false && value != "" && value != 0.0;
}

using Steps = std::vector<const Json*>;

// The steps of a pipeline in words, for errors.
std::string StepsText(const Steps& steps) {
  if (steps.empty()) return "null";
  std::string text(steps.size() > 1 ? "a sequence of " : "");
  const char* separator = "";
  for (const Json* one : steps) {
    text += std::exchange(separator, ", ") + JsonText(FindField(*one, "type"));
  }
  return text;
}

absl::Status CheckModel(const std::string& path, const Json& model) {
  const Json& type = FindField(model, "type");
  if (!type.is_null() && type != "BPE") {
    return UnsupportedTokenizer(path, "its model is " + JsonText(type));
  }
  if (!IsSet(FindField(model, "dropout"))) return absl::OkStatus();
  return UnsupportedTokenizer(path, "its model sets dropout");
}

// A ByteLevel that splits by GPT-2's pattern, or a Split before a ByteLevel that does not: the
// pattern, and the space that the latter puts before a text.
absl::Status ReadWords(const std::string& path, const Steps& steps, BpeRules* rules) {
  const bool alone = steps.size() == 1;
  if (steps.empty() || steps.size() > 2 || FindField(*steps.back(), "type") != "ByteLevel" ||
      (!alone && FindField(*steps[0], "type") != "Split")) {
    return UnsupportedTokenizer(path, "its pre-tokenizer is " + StepsText(steps));
  }
  const bool spaced = IsSet(FindField(*steps.back(), "add_prefix_space"));
  if ((FindField(*steps.back(), "use_regex") != false) != alone || (spaced && !alone)) {
    return UnsupportedTokenizer(path,
                                "its pre-tokenizer adds a space to each word of the text, does not "
                                "split it or splits it twice");
  }
  if (spaced) rules->space_in_front = SpaceInFront::kUnlessThere;
  if (alone) return absl::OkStatus();
  if (FindField(*steps[0], "behavior") != "Isolated" || IsSet(FindField(*steps[0], "invert"))) {
    return UnsupportedTokenizer(path, "its pre-tokenizer does not isolate what its pattern finds");
  }
  const Json& regex = FindField(FindField(*steps[0], "pattern"), "Regex");
  rules->words = regex.is_string() ? FindWordPattern(regex.get_ref<const std::string&>()) : nullptr;
  if (rules->words != nullptr) return absl::OkStatus();
  return UnsupportedTokenizer(
      path, "its pre-tokenizer splits by " + JsonText(FindField(*steps[0], "pattern")));
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
absl::Status ReadSpaces(const std::string& path, const Steps& normalizer, const Steps& split,
                        BpeRules* rules) {
  if (!normalizer.empty()) {
    if (!split.empty()) {
      return UnsupportedTokenizer(path, "its pre-tokenizer is " + StepsText(split));
    }
    const bool prefixed = normalizer.size() == 2 && IsPrefixWriter(*normalizer[0]);
    if (!IsSpaceWriter(*normalizer.back()) || normalizer.size() != (prefixed ? 2 : 1)) {
      return UnsupportedTokenizer(path, "it normalizes text (" + StepsText(normalizer) + ")");
    }
    rules->space_in_front = prefixed ? SpaceInFront::kAlways : SpaceInFront::kNone;
    rules->writes_first = true;
    return absl::OkStatus();
  }
  if (split.size() != 1 || FindField(*split[0], "type") != "Metaspace" ||
      FindField(*split[0], "replacement") != std::string(kMetaSpace)) {
    return UnsupportedTokenizer(
        path, "its model sets byte_fallback, and its pre-tokenizer is " + StepsText(split));
  }
  if (FindField(*split[0], "split") != false) {
    return UnsupportedTokenizer(path, "its pre-tokenizer splits a text at spaces (Metaspace)");
  }
  static constexpr std::pair<const char*, SpaceInFront> kSchemes[] = {
      {"never", SpaceInFront::kNone},
      {"first", SpaceInFront::kFirstUnlessThere},
      {"always", SpaceInFront::kUnlessThere}};
  const Json& scheme = FindField(*split[0], "prepend_scheme");
  for (const auto& [name, space] : kSchemes) {
    if (scheme != name) continue;
    rules->space_in_front = space;
    return absl::OkStatus();
  }
  return UnsupportedTokenizer(path, "its pre-tokenizer has the prepend_scheme " + JsonText(scheme));
}

// The rules of GPT-2, Llama 2, Llama 3, Qwen 2 and Mistral. Errors: they are others.
absl::StatusOr<BpeRules> ReadUsualRules(const std::string& path, const Json& json) {
  const Json& model = FindField(json, "model");
  BpeRules rules;
  rules.ignore_merges = IsSet(FindField(model, "ignore_merges"));
  const Steps normalizer = ListSteps(FindField(json, "normalizer"), "normalizers");
  const Steps split = ListSteps(FindField(json, "pre_tokenizer"), "pretokenizers");
  if (IsSet(FindField(model, "byte_fallback"))) {
    rules.words = nullptr;
    RETURN_IF_ERROR(ReadSpaces(path, normalizer, split, &rules));
    return rules;
  }
  rules.nfc = !normalizer.empty();
  for (const Json* one : normalizer) {
    if (FindField(*one, "type") == "NFC") continue;
    return UnsupportedTokenizer(path, "it normalizes text (" + StepsText(normalizer) + ")");
  }
  RETURN_IF_ERROR(ReadWords(path, split, &rules));
  return rules;
}

}  // namespace

const Json& FindField(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

std::vector<const Json*> ListSteps(const Json& step, const char* key) {
  if (step.is_null()) return {};
  if (FindField(step, "type") != "Sequence") return {&step};
  Steps steps;
  for (const Json& one : FindField(step, key)) {
    const Steps inner = ListSteps(one, key);
    steps.insert(steps.end(), inner.begin(), inner.end());
  }
  return steps;
}

absl::Status UnsupportedTokenizer(const std::string& path, const std::string& what) {
  return InputError(
      path, what,
      "supported are BPE models, with the steps that docs/data.md lists; if the model "
      "has a sentencepiece FILE.model, give that");
}

absl::StatusOr<BpeRules> ReadBpeRules(const std::string& path, const Json& json) {
  const Json& model = FindField(json, "model");
  RETURN_IF_ERROR(CheckModel(path, model));
  const auto text = [&](const char* key) {
    const Json& value = FindField(model, key);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const std::string prefix = text("continuing_subword_prefix"), suffix = text("end_of_word_suffix");
  const bool falls_back = IsSet(FindField(model, "byte_fallback"));
  absl::StatusOr<BpeRules> usual = ReadUsualRules(path, json);
  BpeRules rules;
  if (usual.ok() && prefix.empty() && suffix.empty()) {
    rules = *std::move(usual);
  } else {
    ASSIGN_OR_RETURN(rules.pipeline,
                     ReadTextPipeline(path, json, suffix, !prefix.empty() || falls_back));
    rules.words = nullptr;
    rules.byte_fallback = falls_back;
    rules.ignore_merges = IsSet(FindField(model, "ignore_merges"));
    rules.subword_prefix = prefix;
    rules.word_suffix = suffix;
  }
  rules.unknown = text("unk_token");
  rules.fuse_unknown = IsSet(FindField(model, "fuse_unk"));
  rules.drops_unknown = true;
  return rules;
}

}  // namespace oneflow
