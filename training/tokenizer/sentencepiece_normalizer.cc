#include "training/tokenizer/sentencepiece_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81", kReplacement = "\xef\xbf\xbd";

// A node of the double array. In darts-clone, bit 8 says that a string ends here, the low byte and
// the top bit are the character, the other bits give the offset of its children.
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  uint32_t value() const { return bits & 0x7fffffff; }
  uint32_t label() const { return bits & (0x80000000 | 0xff); }
  uint32_t offset() const { return (bits >> 10) << ((bits & (1U << 9)) >> 6); }
};

bool On(bool present, bool value) { return !present || value; }

}  // namespace

absl::StatusOr<SentencePieceNormalizer> SentencePieceNormalizer::Make(
    const std::string& path, const SentencePieceModel& model) {
  SentencePieceNormalizer made(model);
  const std::string& table = model.normalizer.precompiled_charsmap();
  if (table.empty()) return made;
  uint32_t trie_bytes = 0;
  if (table.size() >= 4) std::memcpy(&trie_bytes, table.data(), 4);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes >= table.size() - 4 ||
      table.back() != '\0') {
    return InputError(path, "its table of characters is broken", "download it again");
  }
  made.trie_.resize(trie_bytes / 4);
  std::memcpy(made.trie_.data(), table.data() + 4, trie_bytes);
  made.replacements_ = std::string_view(table).substr(4 + trie_bytes);
  return made;
}

// The longest entry that the text begins with.
SentencePieceNormalizer::Replaced SentencePieceNormalizer::FromTable(std::string_view text) const {
  Replaced longest{"", 0};
  if (trie_.empty()) return longest;
  size_t node = Unit{trie_[0]}.offset();
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= trie_.size() || Unit{trie_[node]}.label() != byte) break;
    const Unit unit{trie_[node]};
    node ^= unit.offset();
    if (!unit.has_leaf() || node >= trie_.size()) continue;
    const uint32_t at = Unit{trie_[node]}.value();
    if (at < replacements_.size()) longest = {replacements_.data() + at, i + 1};
  }
  return longest;
}

SentencePieceNormalizer::Replaced SentencePieceNormalizer::First(std::string_view text) const {
  if (const size_t length = model_->user_defined.Longest(text)) {
    return {text.substr(0, length), length};
  }
  if (const Replaced replaced = FromTable(text); replaced.bytes > 0) return replaced;
  utf8proc_int32_t character;
  const utf8proc_ssize_t length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size(), 4)), &character);
  if (length <= 0) return {kReplacement, 1};
  return {text.substr(0, length), static_cast<size_t>(length)};
}

std::string SentencePieceNormalizer::Normalize(std::string_view text) const {
  const auto& spec = model_->normalizer;
  const bool join = On(spec.has_remove_extra_whitespaces(), spec.remove_extra_whitespaces());
  const bool prefix = On(spec.has_add_dummy_prefix(), spec.add_dummy_prefix());
  const std::string_view space =
      On(spec.has_escape_whitespaces(), spec.escape_whitespaces()) ? kSpace : " ";
  while (join && !text.empty() && First(text).by == " ") text.remove_prefix(First(text).bytes);
  std::string normal;
  if (text.empty()) return normal;
  if (prefix && !model_->whitespace_as_suffix) normal += space;
  bool after_space = join;
  while (!text.empty()) {
    auto [by, bytes] = First(text);
    text.remove_prefix(bytes);
    while (after_space && by.starts_with(' ')) by.remove_prefix(1);
    for (const char c : by) c == ' ' ? normal += space : normal += c;
    if (!by.empty()) after_space = join && by.ends_with(' ');
  }
  while (join && normal.ends_with(space)) normal.resize(normal.size() - space.size());
  if (prefix && model_->whitespace_as_suffix) normal += space;
  return normal;
}

}  // namespace oneflow
