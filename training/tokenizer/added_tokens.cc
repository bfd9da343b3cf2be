#include "training/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "training/tokenizer/word_split.h"

namespace oneflow {

namespace {

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
    passes_[pass].Add(text, id);
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
  // ASCII around `at` is its own composed form; other text may become a token by normalization.
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 128; };
  const size_t near = at - std::min(at, longest_);
  const std::string_view around = text.substr(near, at - near + longest_);
  if (normalize_ && !empty_[1] && !std::all_of(around.begin(), around.end(), ascii)) return true;
  // White space around `at` may belong to a token at its other end.
  const size_t left = at - SpaceAtEnd(text.substr(0, at));
  const size_t right = at + SpaceAtBegin(text.substr(at));
  for (size_t begin = left - std::min(left, longest_); begin <= right; ++begin) {
    bool spans = false;
    for (const PieceTrie& pass : passes_) {
      pass.Prefixes(text.substr(begin), [&](size_t size, int32_t id) {
        const AddedToken& token = tokens_[id];
        const size_t end = begin + size;
        spans = spans || (begin < at && end > at) || (token.rstrip && end <= at && end >= left) ||
                (token.lstrip && begin >= at) || (token.single_word && (begin == at || end == at));
      });
    }
    if (spans) return true;
  }
  return false;
}

}  // namespace oneflow
