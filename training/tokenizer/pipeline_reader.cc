#include "training/tokenizer/pipeline_reader.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/bpe_pipeline.h"
#include "training/tokenizer/unicode_sets.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;
using Behavior = SplitStep::Behavior;
using PatternPointer = std::shared_ptr<const SplitPattern>;

absl::Status Unsupported(const std::string& path, const char* part, const Json& step) {
  return UnsupportedTokenizer(
      path, std::string("its ") + part + " has the step " + JsonText(FindField(step, "type")));
}

// A step whose members are not what its type says.
absl::Status BadStep(const std::string& path, const Json& step) {
  return InputError(path, "its step " + JsonText(step) + " is not what its type says",
                    "download it again");
}

std::string ToText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

absl::StatusOr<PatternPointer> MakePattern(const std::string& path, const Json& shown,
                                           absl::StatusOr<SplitPattern> made) {
  if (made.ok()) return std::make_shared<const SplitPattern>(*std::move(made));
  return UnsupportedTokenizer(path, absl::StrCat("its pattern ", JsonText(shown),
                                                 " is not supported: ", made.status().message()));
}

absl::StatusOr<PatternPointer> MakeSetPattern(const std::string& path, const CodeSet& set) {
  return MakePattern(path, {}, SplitPattern::Make(RegexOfSet(set)));
}

// {"String": " "} or {"Regex": "\\s+"}.
absl::StatusOr<PatternPointer> ReadPattern(const std::string& path, const Json& step) {
  const Json& pattern = FindField(step, "pattern");
  const Json &text = FindField(pattern, "String"), &regex = FindField(pattern, "Regex");
  if (text.is_string()) {
    return MakePattern(path, pattern, SplitPattern::Make(RegexOfText(text.get<std::string>())));
  }
  if (!regex.is_string()) return BadStep(path, step);
  return MakePattern(path, pattern, SplitPattern::Parse(regex.get<std::string>()));
}

absl::StatusOr<Behavior> ReadBehavior(const std::string& path, const Json& step) {
  static constexpr std::pair<const char*, Behavior> kBehaviors[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  const Json& behavior = FindField(step, "behavior");
  for (const auto& [name, value] : kBehaviors) {
    if (behavior == name) return value;
  }
  return BadStep(path, step);
}

absl::StatusOr<NormalizerStep> ReadNormalizerStep(const std::string& path, const Json& step) {
  using Kind = NormalizerStep::Kind;
  static constexpr std::pair<const char*, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                                  {"NFD", NormalForm::kNfd},
                                                                  {"NFKC", NormalForm::kNfkc},
                                                                  {"NFKD", NormalForm::kNfkd}};
  const Json& type = FindField(step, "type");
  for (const auto& [name, form] : kForms) {
    if (type == name) return NormalizerStep{.kind = Kind::kForm, .form = form};
  }
  if (type == "Lowercase") return NormalizerStep{.kind = Kind::kLowercase};
  if (type == "StripAccents") return NormalizerStep{.kind = Kind::kStripAccents};
  if (type == "ByteLevel") return NormalizerStep{.kind = Kind::kByteLevel};
  if (type == "Strip") {
    return NormalizerStep{.kind = Kind::kStrip,
                          .left = FindField(step, "strip_left") == true,
                          .right = FindField(step, "strip_right") == true};
  }
  if (type == "Prepend") {
    if (!FindField(step, "prepend").is_string()) return BadStep(path, step);
    return NormalizerStep{.kind = Kind::kPrepend, .text = ToText(FindField(step, "prepend"))};
  }
  if (type == "Replace") {
    if (!FindField(step, "content").is_string()) return BadStep(path, step);
    NormalizerStep made{.kind = Kind::kReplace, .text = ToText(FindField(step, "content"))};
    ASSIGN_OR_RETURN(made.pattern, ReadPattern(path, step));
    made.literal = ToText(FindField(FindField(step, "pattern"), "String"));
    return made;
  }
  return Unsupported(path, "normalizer", step);
}

// Reads the steps of a pre-tokenizer.
class SplitReader {
 public:
  SplitReader(const std::string& path, TextPipeline* made) : path_(path), made_(made) {}

  absl::Status Read(const Json& step, bool last) {
    const Json& type = FindField(step, "type");
    if (type == "Split") {
      ASSIGN_OR_RETURN(const Behavior behavior, ReadBehavior(path_, step));
      ASSIGN_OR_RETURN(PatternPointer pattern, ReadPattern(path_, step));
      return Add(std::move(pattern), behavior, FindField(step, "invert") == true);
    }
    if (type == "ByteLevel") return ReadByteLevel(step, last);
    if (type == "Metaspace") return ReadMetaspace(step);
    if (type == "Digits") {
      const bool individual = FindField(step, "individual_digits") == true;
      return AddSet(NumericSet(), individual ? Behavior::kIsolated : Behavior::kContiguous);
    }
    if (type == "Punctuation") {
      Behavior behavior = Behavior::kIsolated;
      if (!FindField(step, "behavior").is_null()) {
        ASSIGN_OR_RETURN(behavior, ReadBehavior(path_, step));
      }
      return AddSet(PunctuationSet(), behavior);
    }
    if (type == "WhitespaceSplit") return AddSet(WhiteSpaceSet(), Behavior::kRemoved);
    if (type == "BertPreTokenizer") {
      RETURN_IF_ERROR(AddSet(WhiteSpaceSet(), Behavior::kRemoved));
      return AddSet(PunctuationSet(), Behavior::kIsolated);
    }
    if (type == "CharDelimiterSplit") {
      const std::string delimiter = ToText(FindField(step, "delimiter"));
      if (delimiter.empty()) return BadStep(path_, step);
      ASSIGN_OR_RETURN(PatternPointer pattern,
                       MakePattern(path_, step, SplitPattern::Make(RegexOfText(delimiter))));
      return Add(std::move(pattern), Behavior::kRemoved, false);
    }
    if (type == "Whitespace") return ReadWhitespace(step);
    return Unsupported(path_, "pre-tokenizer", step);
  }

 private:
  absl::Status Add(PatternPointer pattern, Behavior behavior, bool invert) {
    made_->words.Add({.pattern = std::move(pattern), .behavior = behavior, .invert = invert});
    return absl::OkStatus();
  }

  absl::Status AddSet(const CodeSet& set, Behavior behavior) {
    ASSIGN_OR_RETURN(PatternPointer pattern, MakeSetPattern(path_, set));
    return Add(std::move(pattern), behavior, false);
  }

  // \w+|[^\w\s]+ of Rust's regular expressions; what is between is left out.
  absl::Status ReadWhitespace(const Json& step) {
    SplitRegex regex;
    regex.root.kind = SplitRegex::Node::Kind::kChoice;
    regex.sets = {RustWordSet(), RustWordSet().Or(WhiteSpaceSet()).Complement()};
    for (const size_t set : {0, 1}) {
      regex.root.parts.push_back({.kind = SplitRegex::Node::Kind::kRepeat,
                                  .parts = {{.kind = SplitRegex::Node::Kind::kSet, .set = set}},
                                  .least = 1,
                                  .most = -1});
    }
    ASSIGN_OR_RETURN(PatternPointer pattern, MakePattern(path_, step, SplitPattern::Make(regex)));
    return Add(std::move(pattern), Behavior::kRemoved, true);
  }

  absl::Status ReadByteLevel(const Json& step, bool last) {
    if (FindField(step, "add_prefix_space") == true) {
      made_->words.Add({.kind = SplitStep::Kind::kSpaceInFront});
    }
    if (FindField(step, "use_regex") != false) {
      ASSIGN_OR_RETURN(PatternPointer pattern,
                       MakePattern(path_, step, SplitPattern::Parse(kGpt2Words.regex)));
      RETURN_IF_ERROR(Add(std::move(pattern), Behavior::kIsolated, false));
    }
    // Words of bytes need not be written in the alphabet, unless another step reads them.
    if (last && !writes_alphabet_) {
      made_->of_bytes = true;
    } else {
      made_->words.Add({.kind = SplitStep::Kind::kAlphabet});
      writes_alphabet_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status ReadMetaspace(const Json& step) {
    SplitStep write{.kind = SplitStep::Kind::kWriteSpaces,
                    .mark = ToText(FindField(step, "replacement")),
                    .space = SpaceInFront::kUnlessThere};
    if (write.mark.empty() || DecodeCharacter(write.mark).bytes != write.mark.size()) {
      return BadStep(path_, step);
    }
    const Json& scheme = FindField(step, "prepend_scheme");
    if (scheme == "never" || FindField(step, "add_prefix_space") == false) {
      write.space = SpaceInFront::kNone;
    } else if (scheme == "first") {
      write.space = SpaceInFront::kFirstUnlessThere;
    } else if (!scheme.is_null() && scheme != "always") {
      return BadStep(path_, step);
    }
    const std::string mark = write.mark;
    made_->words.Add(std::move(write));
    if (FindField(step, "split") == false) return absl::OkStatus();
    ASSIGN_OR_RETURN(PatternPointer pattern,
                     MakePattern(path_, step, SplitPattern::Make(RegexOfText(mark))));
    return Add(std::move(pattern), Behavior::kMergedWithNext, false);
  }

  const std::string& path_;
  TextPipeline* const made_;
  bool writes_alphabet_ = false;
};

// A step that changes only the begin of a text, or joins tokens, says nothing of one token.
absl::Status AddDecoderStep(const std::string& path, const Json& step, TextPipeline* made) {
  using Kind = DecoderStep::Kind;
  const Json& type = FindField(step, "type");
  const auto add = [made](Kind kind, std::string from, std::string to) {
    made->decoder.push_back({kind, std::move(from), std::move(to)});
    return absl::OkStatus();
  };
  if (type == "ByteLevel") return add(Kind::kAlphabet, "", "");
  if (type == "ByteFallback") return add(Kind::kByteFallback, "", "");
  if (type == "Metaspace") {
    return add(Kind::kReplace, ToText(FindField(step, "replacement")), " ");
  }
  if (type == "BPEDecoder") return add(Kind::kReplace, ToText(FindField(step, "suffix")), " ");
  if (type == "Replace") {
    const Json& from = FindField(FindField(step, "pattern"), "String");
    if (from.is_string()) {
      return add(Kind::kReplace, ToText(from), ToText(FindField(step, "content")));
    }
    return UnsupportedTokenizer(path,
                                "its decoder replaces by " + JsonText(FindField(step, "pattern")));
  }
  if (type == "Fuse" || type == "Strip") return absl::OkStatus();
  return Unsupported(path, "decoder", step);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TextPipeline>> ReadTextPipeline(const std::string& path,
                                                                     const Json& json,
                                                                     const std::string& suffix,
                                                                     bool of_characters) {
  auto made = std::make_shared<TextPipeline>();
  const Json &normalizer = FindField(json, "normalizer"), &split = FindField(json, "pre_tokenizer");
  const Json& decoder = FindField(json, "decoder");
  for (const Json* step : ListSteps(normalizer, "normalizers")) {
    ASSIGN_OR_RETURN(NormalizerStep read, ReadNormalizerStep(path, *step));
    made->normalizer.Add(std::move(read));
  }
  const std::vector<const Json*> steps = ListSteps(split, "pretokenizers");
  SplitReader reader(path, made.get());
  for (size_t i = 0; i < steps.size(); ++i) {
    RETURN_IF_ERROR(reader.Read(*steps[i], i + 1 == steps.size()));
  }
  if (made->of_bytes && (of_characters || !suffix.empty())) {
    made->of_bytes = false;
    made->words.Add({.kind = SplitStep::Kind::kAlphabet});
  }
  if (!suffix.empty()) made->decoder.push_back({DecoderStep::Kind::kReplace, suffix, " "});
  for (const Json* step : ListSteps(decoder, "decoders")) {
    RETURN_IF_ERROR(AddDecoderStep(path, *step, made.get()));
  }
  made->text = JsonText(normalizer) + JsonText(split) + JsonText(decoder);
  return made;
}

}  // namespace oneflow
