#include "training/tokenizer/bpe_encoder.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "oneflow_core/base/strings.h"
#include "training/tokenizer/nfc.h"
#include "training/tokenizer/word_split.h"

namespace oneflow {
namespace {

constexpr size_t kLongestRemembered = 64;    // bytes; longer words are seldom repeated
constexpr size_t kMostRemembered = 1 << 18;  // then all are forgotten

}  // namespace

AddedTokens::Normalizer BpeEncoder::FindNormalizer(const BpeRules& rules) {
  if (rules.nfc) return ComposeNfc;
  if (!rules.writes_first) return nullptr;
  return [space = rules.space_in_front](std::string_view text) { return WritePieces(text, space); };
}

void BpeEncoder::Encode(std::string_view text, std::vector<int32_t>* ids) {
  const BpeRules& rules = vocabulary_.rules;
  bool first = true;
  added_.Split(text, [&](std::string_view part, std::optional<int32_t> id) {
    const bool begins = std::exchange(first, false);
    if (id) return ids->push_back(*id);
    if (rules.words == nullptr) {
      return EncodeWord(
          rules.writes_first ? std::string(part) : WritePieces(part, rules.space_in_front, begins),
          ids);
    }
    const bool no_space = rules.space_in_front == SpaceInFront::kNone || part.starts_with(' ');
    no_space ? EncodeWords(part, ids) : EncodeWords(" " + std::string(part), ids);
  });
}

size_t BpeEncoder::FindSplit(std::string_view text, size_t limit) const {
  const BpeRules& rules = vocabulary_.rules;
  const auto find = [&](size_t most) {
    if (rules.words != nullptr) return WordSplitPoint(*rules.words, text, most);
    return most == 0 ? 0 : text.rfind('\n', most - 1) + 1;
  };
  size_t at = find(limit);
  // The rest must begin like a part of the text, and get no space.
  const bool at_space = rules.words != nullptr && rules.space_in_front != SpaceInFront::kNone;
  while (at > 0 && at < text.size() &&
         ((at_space && text[at] != ' ') || added_.MaySpan(text, at))) {
    at = find(at - 1);
  }
  return at;
}

void BpeEncoder::EncodeWords(std::string_view text, std::vector<int32_t>* ids) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = WordEnd(*vocabulary_.rules.words, text, at);
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (word.size() > kLongestRemembered) {
      EncodeWord(word, ids);
      continue;
    }
    auto it = seen_.find(ToAbsl(word));
    if (it == seen_.end()) {
      if (seen_.size() >= kMostRemembered) seen_.clear(), seen_ids_.clear();
      const size_t begin = seen_ids_.size();
      EncodeWord(word, &seen_ids_);
      it = seen_.emplace(word, Range{begin, seen_ids_.size() - begin}).first;
    }
    const auto first = seen_ids_.begin() + static_cast<ptrdiff_t>(it->second.begin);
    ids->insert(ids->end(), first, first + static_cast<ptrdiff_t>(it->second.size));
  }
}

void BpeEncoder::EncodeWord(std::string_view word, std::vector<int32_t>* ids) {
  if (vocabulary_.rules.ignore_merges) {
    const auto it = vocabulary_.id_of_word.find(ToAbsl(word));
    if (it != vocabulary_.id_of_word.end()) return ids->push_back(it->second);
  }
  symbols_.clear();
  candidates_.clear();
  vocabulary_.rules.words == nullptr ? BeginAsCharacters(word) : BeginAsBytes(word);
  const auto n = static_cast<int32_t>(symbols_.size());
  if (n == 0) return;
  symbols_.back().next = -1;
  for (int32_t i = 0; i + 1 < n; ++i) Propose(i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    const Candidate pair = candidates_.back();
    candidates_.pop_back();
    Merge(pair);
  }
  for (int32_t i = 0; i >= 0; i = symbols_[i].next) ids->push_back(symbols_[i].id);
}

void BpeEncoder::BeginAsBytes(std::string_view word) {
  for (const char byte : word) {
    const auto i = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({vocabulary_.id_of_byte[static_cast<unsigned char>(byte)], i - 1, i + 1});
  }
}

void BpeEncoder::BeginAsCharacters(std::string_view word) {
  while (!word.empty()) {
    utf8proc_int32_t character;
    const utf8proc_ssize_t length = utf8proc_iterate(
        reinterpret_cast<const utf8proc_uint8_t*>(word.data()),
        static_cast<utf8proc_ssize_t>(std::min<size_t>(word.size(), 4)), &character);
    const std::string_view text = word.substr(0, length > 0 ? length : 1);
    const auto it = vocabulary_.id_of_word.find(ToAbsl(text));
    if (it == vocabulary_.id_of_word.end()) {
      BeginAsBytes(text);
    } else {
      const auto i = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({it->second, i - 1, i + 1});
    }
    word.remove_prefix(text.size());
  }
}

void BpeEncoder::Propose(int32_t left) {
  const int32_t right = symbols_[left].next;
  if (right < 0) return;
  const int32_t a = symbols_[left].id, b = symbols_[right].id;
  const auto it = vocabulary_.merges.find(BpeVocabulary::Pair(a, b));
  if (it == vocabulary_.merges.end()) return;
  candidates_.push_back({it->second.rank, left, a, b, it->second.id});
  std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
}

void BpeEncoder::Merge(const Candidate& pair) {
  Symbol& left = symbols_[pair.left];
  if (left.id != pair.left_id || left.next < 0 || symbols_[left.next].id != pair.right_id) return;
  Symbol& right = symbols_[left.next];
  right.id = -1;
  left.id = pair.merged;
  left.next = right.next;
  if (left.next >= 0) symbols_[left.next].previous = pair.left;
  Propose(pair.left);
  if (left.previous >= 0) Propose(left.previous);
}

}  // namespace oneflow
