#include "training/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "training/tokenizer/word_split.h"

namespace oneflow {

namespace {

constexpr size_t kNear = 8;  // times the longest token: a text that is normalized alone

// True if a token that was found at `at` is one there.
bool Counts(const AddedToken& token, std::string_view text, size_t at, size_t length) {
  if (token.special) return false;
  return !token.single_word ||
         (!EndsWithWord(text.substr(0, at)) && !BeginsWithWord(text.substr(at + length)));
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, Normalizer normalize,
                         bool finds_special)
    : normalize_(std::move(normalize)) {
  const auto stays_text = [&](const AddedToken& token) { return token.special && !finds_special; };
  // Without one that a text is searched for, there is nothing to find.
  if (std::all_of(tokens.begin(), tokens.end(), stays_text)) return;
  for (const AddedToken& token : tokens) {
    const auto id = static_cast<int32_t>(token.id);
    const size_t pass = token.normalized ? 1 : 0;
    const std::string text = normalize_ && token.normalized ? normalize_(token.text) : token.text;
    if (text.empty()) continue;  // which nothing can find
    passes_[pass].Add(text, id);
    firsts_[pass].set(static_cast<unsigned char>(text[0]));
    empty_[pass] = false;
    tokens_.resize(std::max(tokens_.size(), static_cast<size_t>(id) + 1));
    tokens_[id] = token;
    tokens_[id].text.clear();
    tokens_[id].special = stays_text(token);
    longest_ = std::max(longest_, text.size());
  }
}

void AddedTokens::Split(std::string_view text, const OnPart& on_part) const {
  SplitBy(0, text, [&](std::string_view part, std::optional<int32_t> id) {
    if (id) return on_part(part, id);
    normalize_ ? SplitBy(1, normalize_(part), on_part) : SplitBy(1, part, on_part);
  });
}

void AddedTokens::SplitBy(size_t pass, std::string_view text, const OnPart& on_part) const {
  size_t begin = 0;  // begin of the ordinary text before `at`
  for (size_t at = 0; at < text.size() && !empty_[pass];) {
    if (!firsts_[pass].test(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    size_t length = 1;
    int32_t id = -1;
    passes_[pass].Prefixes(text.substr(at), [&](size_t size, int32_t found) {
      length = size;
      id = found;
    });
    if (id >= 0 && Counts(tokens_[id], text, at, length)) {
      size_t first = at, end = at + length;
      if (tokens_[id].lstrip) first = std::max(at - SpaceAtEnd(text.substr(0, at)), begin);
      if (tokens_[id].rstrip) end += SpaceAtBegin(text.substr(end));
      if (first > begin) on_part(text.substr(begin, first - begin), std::nullopt);
      on_part(text.substr(first, end - first), id);
      begin = end;
    }
    at += length;
  }
  if (begin < text.size()) on_part(text.substr(begin), std::nullopt);
}

bool AddedTokens::MaySpan(std::string_view text, size_t at) const {
  if (MaySpan(passes_[0], text, at)) return true;
  if (empty_[1]) return false;
  if (!normalize_) return MaySpan(passes_[1], text, at);
  // The text around, normalized; at its ends no character is split.
  const auto inside = [&](size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  size_t begin = at - std::min(at, kNear * longest_),
         end = std::min(text.size(), at + kNear * longest_);
  while (begin > 0 && inside(begin)) --begin;
  while (inside(end)) ++end;
  const std::string left = normalize_(text.substr(begin, at - begin));
  return MaySpan(passes_[1], left + normalize_(text.substr(at, end - at)), left.size());
}

bool AddedTokens::MaySpan(const PieceTrie& pass, std::string_view text, size_t at) const {
  // White space around `at` may belong to a token at its other end.
  const size_t left = at - SpaceAtEnd(text.substr(0, at));
  const size_t right = at + SpaceAtBegin(text.substr(at));
  for (size_t begin = left - std::min(left, longest_); begin <= right; ++begin) {
    bool spans = false;
    pass.Prefixes(text.substr(begin), [&](size_t size, int32_t id) {
      const AddedToken& token = tokens_[id];
      const size_t end = begin + size;
      spans = spans || (begin < at && end > at) || (token.rstrip && end <= at && end >= left) ||
              (token.lstrip && begin >= at) || (token.single_word && (begin == at || end == at));
    });
    if (spans) return true;
  }
  return false;
}

}  // namespace oneflow
