#include "training/tokenizer/text_normalizer.h"

#include <algorithm>

#include "training/tokenizer/byte_alphabet.h"
#include "training/tokenizer/code_set.h"
#include "training/tokenizer/unicode_sets.h"
#include "training/tokenizer/word_split.h"

namespace oneflow {
namespace {

using NormalizerKind = NormalizerStep::Kind;

// Applies `change`, which appends what a character becomes, to each.
template <typename Change>
std::string MapCharacters(std::string_view text, Change change) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const DecodedCharacter c = DecodeCharacter(text);
    const std::string_view bytes = text.substr(0, c.bytes);
    c.code == kNoCharacter ? void(made += bytes) : change(c.code, bytes, &made);
    text.remove_prefix(c.bytes);
  }
  return made;
}

void AppendLowercase(int32_t code, std::string* text) {
  constexpr int32_t kCapitalDottedI = 0x130;
  if (code == kCapitalDottedI) return AppendCharacter('i', text), AppendCharacter(0x307, text);
  AppendCharacter(LowerCase(code), text);
}

std::string Replace(const NormalizerStep& step, std::string_view text) {
  std::string made;
  made.reserve(text.size() + text.size() / 4);
  size_t done = 0;
  const auto replace = [&](size_t begin, size_t end) {
    made += text.substr(done, begin - done);
    made += step.text;
    done = end;
  };
  if (step.literal.empty()) {
    step.pattern->FindMatches(text, replace);
  } else {
    for (size_t at = 0; (at = text.find(step.literal, at)) != std::string_view::npos;) {
      replace(at, at + step.literal.size());
      at = done;
    }
  }
  made += text.substr(done);
  return made;
}

std::string Apply(const NormalizerStep& step, std::string_view text) {
  switch (step.kind) {
    case NormalizerKind::kForm: return Normalize(text, step.form);
    case NormalizerKind::kLowercase:
      return MapCharacters(text, [](int32_t code, std::string_view, std::string* made) {
        AppendLowercase(code, made);
      });
    case NormalizerKind::kStripAccents:
      return MapCharacters(text, [](int32_t code, std::string_view bytes, std::string* made) {
        if (code < 0x300 || !CombiningMarkSet().Contains(code)) *made += bytes;
      });
    case NormalizerKind::kStrip:
      if (step.left) text.remove_prefix(SpaceAtBegin(text));
      if (step.right) text.remove_suffix(SpaceAtEnd(text));
      return std::string(text);
    case NormalizerKind::kPrepend: return text.empty() ? "" : step.text + std::string(text);
    case NormalizerKind::kReplace: return Replace(step, text);
    case NormalizerKind::kByteLevel: return WriteInAlphabet(text);
  }
  return std::string(text);
}

// The only character of a text; -1 for another.
int32_t OnlyCharacter(std::string_view text) {
  if (text.empty()) return -1;
  const DecodedCharacter c = DecodeCharacter(text);
  return c.bytes == text.size() ? c.code : -1;
}

}  // namespace

std::string TextNormalizer::Normalize(std::string_view text) const {
  std::string made(text);
  for (const NormalizerStep& step : steps_) made = Apply(step, made);
  return made;
}

bool TextNormalizer::KeepsSplit(int32_t* left, int32_t* right) const {
  for (const NormalizerStep& step : steps_) {
    switch (step.kind) {
      case NormalizerKind::kForm:
      case NormalizerKind::kStripAccents: break;  // of ASCII
      case NormalizerKind::kLowercase: *left = LowerCase(*left), *right = LowerCase(*right); break;
      case NormalizerKind::kStrip:
        if (WhiteSpaceSet().Contains(*left) || WhiteSpaceSet().Contains(*right)) return false;
        break;
      case NormalizerKind::kPrepend: return false;
      case NormalizerKind::kReplace: {
        const int32_t found = OnlyCharacter(step.literal), by = OnlyCharacter(step.text);
        if (found >= 0 && by >= 0) {
          if (*left == found) *left = by;
          if (*right == found) *right = by;
        } else if (step.pattern->MayContain(*left) || step.pattern->MayContain(*right) ||
                   step.pattern->MayNeedBoth(*left, *right)) {
          return false;
        }
        break;
      }
      case NormalizerKind::kByteLevel:
        // Other characters are several.
        if (*left >= 128 || *right >= 128) return false;
        *left = ByteAlphabet()[*left], *right = ByteAlphabet()[*right];
        break;
    }
  }
  return true;
}

bool TextNormalizer::prepends() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const NormalizerStep& step) {
    return step.kind == NormalizerKind::kPrepend;
  });
}

}  // namespace oneflow
