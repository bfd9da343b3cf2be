#include "training/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "oneflow_core/base/strings.h"
#include "training/tokenizer/code_set.h"
#include "training/tokenizer/normal_form.h"
#include "training/tokenizer/word_split.h"

namespace oneflow {
namespace {

constexpr size_t kLongestRemembered = 64;    // bytes; longer words are seldom repeated
constexpr size_t kMostRemembered = 1 << 18;  // then all are forgotten

uint64_t JoinIds(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 128; }

}  // namespace

BpeEncoder::BpeEncoder(BpeVocabulary vocabulary, bool finds_special)
    : vocabulary_(std::move(vocabulary)),
      added_(vocabulary_.added, FindNormalizer(vocabulary_.rules), finds_special) {
  FindJoins();
  if (vocabulary_.rules.pipeline) FindSplitPairs();
}

AddedTokens::Normalizer BpeEncoder::FindNormalizer(const BpeRules& rules) {
  if (rules.pipeline) {
    if (rules.pipeline->normalizer.empty()) return nullptr;
    return [pipeline = rules.pipeline](std::string_view text) {
      return pipeline->normalizer.Normalize(text);
    };
  }
  if (rules.nfc) return ComposeNfc;
  if (!rules.writes_first) return nullptr;
  return [space = rules.space_in_front](std::string_view text) { return WritePieces(text, space); };
}

void BpeEncoder::FindJoins() {
  const BpeRules& rules = vocabulary_.rules;
  splits_words_ = !rules.ignore_merges && rules.subword_prefix.empty() && rules.word_suffix.empty();
  if (!splits_words_) return;
  for (const auto& [left, right] : vocabulary_.joins) {
    rules.of_characters() ? void(joined_characters_.insert(JoinIds(left, right)))
                          : void(joined_bytes_.set(left << 8 | right));
  }
  for (const auto& [word, id] : vocabulary_.id_of_word) {
    if (word.empty()) continue;
    const DecodedCharacter c = DecodeCharacter(word);
    if (c.bytes == word.size()) known_characters_.insert(c.code);
  }
}

bool BpeEncoder::NeverJoins(int32_t left, int32_t right) const {
  if (!splits_words_) return false;
  if (!vocabulary_.rules.of_characters()) {
    return vocabulary_.id_of_byte[left] >= 0 && vocabulary_.id_of_byte[right] >= 0 &&
           !joined_bytes_.test(left << 8 | right);
  }
  return known_characters_.contains(left) && known_characters_.contains(right) &&
         !joined_characters_.contains(JoinIds(left, right));
}

void BpeEncoder::FindSplitPairs() {
  const TextPipeline& pipeline = *vocabulary_.rules.pipeline;
  for (int32_t a = 0; a < 128; ++a) {
    for (int32_t b = 0; b < 128; ++b) {
      int32_t left = a, right = b;
      if (!pipeline.normalizer.KeepsSplit(&left, &right)) continue;
      const PreTokenizer::SplitEffect effect = pipeline.words.FindSplitEffect(&left, &right);
      // A word of bytes ends and begins with ASCII characters as they are.
      const bool beyond_ascii = pipeline.of_bytes && (left >= 128 || right >= 128);
      if (effect == PreTokenizer::SplitEffect::kNone ||
          (effect == PreTokenizer::SplitEffect::kJoins && !beyond_ascii &&
           NeverJoins(left, right))) {
        split_pairs_.set(a << 7 | b);
      }
    }
  }
  splits_at_lines_ = pipeline.normalizer.prepends();
}

void BpeEncoder::Encode(std::string_view text, std::vector<int32_t>* ids) {
  const BpeRules& rules = vocabulary_.rules;
  bool first = true;
  added_.Split(text, [&](std::string_view part, std::optional<int32_t> id) {
    const bool begins = std::exchange(first, false);
    if (id) return ids->push_back(*id);
    if (rules.pipeline) {
      return rules.pipeline->words.Split(part, begins,
                                         [&](std::string_view word) { EncodeSeen(word, ids); });
    }
    if (rules.words == nullptr) {
      return EncodeSeen(
          rules.writes_first ? std::string(part) : WritePieces(part, rules.space_in_front, begins),
          ids);
    }
    const bool no_space = rules.space_in_front == SpaceInFront::kNone || part.starts_with(' ');
    no_space ? EncodeWords(part, ids) : EncodeWords(" " + std::string(part), ids);
  });
}

size_t BpeEncoder::FindLineEnd(std::string_view text, size_t limit) const {
  return limit == 0 ? 0 : text.rfind('\n', limit - 1) + 1;
}

size_t BpeEncoder::FindSplit(std::string_view text, size_t limit) const {
  const BpeRules& rules = vocabulary_.rules;
  const auto find = [&](size_t most) -> size_t {
    if (rules.words != nullptr) return WordSplitPoint(*rules.words, text, most);
    if (!rules.pipeline || splits_at_lines_) return FindLineEnd(text, most);
    if (most >= text.size()) return text.size();
    for (size_t at = most; at > 0; --at) {
      if (!IsAscii(text[at]) || !IsAscii(text[at - 1]) ||
          !split_pairs_.test(static_cast<size_t>(text[at - 1]) << 7 | text[at])) {
        continue;
      }
      // What follows a character may become one with it.
      if (rules.pipeline->normalizer.empty() || at + 1 == text.size() || IsAscii(text[at + 1])) {
        return at;
      }
    }
    return 0;
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
    EncodeSeen(text.substr(at, end - at), ids);
    at = end;
  }
}

void BpeEncoder::EncodeSeen(std::string_view word, std::vector<int32_t>* ids) {
  if (word.size() > kLongestRemembered) return EncodeLong(word, ids);
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

void BpeEncoder::EncodeLong(std::string_view word, std::vector<int32_t>* ids) {
  if (!splits_words_) return EncodeWord(word, ids);
  const bool characters = vocabulary_.rules.of_characters();
  const auto next = [&](size_t at) {
    if (characters) return DecodeCharacter(word.substr(at));
    return DecodedCharacter{static_cast<unsigned char>(word[at]), 1};
  };
  const auto encode = [&](std::string_view part) {
    part.size() > kLongestRemembered ? EncodeWord(part, ids) : EncodeSeen(part, ids);
  };
  size_t begin = 0, at = 0;
  int32_t last = -1;
  while (at < word.size()) {
    const DecodedCharacter c = next(at);
    if (at > begin && NeverJoins(last, c.code)) {
      encode(word.substr(begin, at - begin));
      begin = at;
    }
    last = c.code;
    at += c.bytes;
  }
  encode(word.substr(begin));
}

void BpeEncoder::EncodeWord(std::string_view word, std::vector<int32_t>* ids) {
  if (vocabulary_.rules.ignore_merges) {
    const auto it = vocabulary_.id_of_word.find(ToAbsl(word));
    if (it != vocabulary_.id_of_word.end()) return ids->push_back(it->second);
  }
  MergeWord(word, ids);
}

void BpeEncoder::MergeWord(std::string_view word, std::vector<int32_t>* ids) {
  symbols_.clear();
  candidates_.clear();
  unknown_ = false;
  vocabulary_.rules.of_characters() ? BeginAsCharacters(word) : BeginAsBytes(word);
  if (std::exchange(unknown_, false)) AddSymbol(*vocabulary_.unknown);
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

void BpeEncoder::AddSymbol(int32_t id) {
  const auto i = static_cast<int32_t>(symbols_.size());
  symbols_.push_back({id, i - 1, i + 1});
}

void BpeEncoder::AddUnknown() {
  if (!vocabulary_.unknown) return;
  if (unknown_ && !vocabulary_.rules.fuse_unknown) AddSymbol(*vocabulary_.unknown);
  unknown_ = true;
}

void BpeEncoder::BeginAsBytes(std::string_view word) {
  for (const char byte : word) {
    const int32_t id = vocabulary_.id_of_byte[static_cast<unsigned char>(byte)];
    if (id < 0) {
      AddUnknown();
      continue;
    }
    if (std::exchange(unknown_, false)) AddSymbol(*vocabulary_.unknown);
    AddSymbol(id);
  }
}

void BpeEncoder::BeginAsCharacters(std::string_view word) {
  const BpeRules& rules = vocabulary_.rules;
  const bool affixes = !rules.subword_prefix.empty() || !rules.word_suffix.empty();
  for (size_t at = 0; at < word.size();) {
    const std::string_view text = word.substr(at, DecodeCharacter(word.substr(at)).bytes);
    std::string written;
    if (affixes) {
      if (at > 0) written = rules.subword_prefix;
      written += text;
      if (at + text.size() == word.size()) written += rules.word_suffix;
    }
    const std::string_view token = affixes ? std::string_view(written) : text;
    at += text.size();
    const auto it = vocabulary_.id_of_word.find(ToAbsl(token));
    if (it != vocabulary_.id_of_word.end()) {
      if (std::exchange(unknown_, false)) AddSymbol(*vocabulary_.unknown);
      AddSymbol(it->second);
      continue;
    }
    const auto id = [&](char byte) {
      return vocabulary_.id_of_byte[static_cast<unsigned char>(byte)];
    };
    if (std::all_of(token.begin(), token.end(), [&](char byte) { return id(byte) >= 0; })) {
      for (const char byte : token) AddSymbol(id(byte));  // before an unknown token that waits
    } else {
      AddUnknown();
    }
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
