#include "actor_runtime/tokenizer/added_tokens.h"

#include <string>
#include <utility>

namespace oneflow {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, Normalizer normalize)
    : normalize_(std::move(normalize)) {
  const auto is_special = [](const AddedToken& token) { return token.special; };
  // Without one that a text is searched for, there is nothing to find.
  if (std::all_of(tokens.begin(), tokens.end(), is_special)) return;
  for (const AddedToken& token : tokens) {
    const auto id = static_cast<int32_t>(token.id);
    const size_t pass = token.normalized ? 1 : 0;
    const std::string text = normalize_ && token.normalized ? normalize_(token.text) : token.text;
    passes_[pass].Add(text, id);
    empty_[pass] = false;
    special_.resize(std::max(special_.size(), static_cast<size_t>(id) + 1));
    special_[id] = token.special;
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
    if (id >= 0 && !special_[id]) {
      if (at > begin) on_part(text.substr(begin, at - begin), std::nullopt);
      on_part(text.substr(at, length), id);
      begin = at + length;
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
  for (size_t begin = at - std::min(at, longest_); begin < at; ++begin) {
    bool spans = false;
    for (const PieceTrie& pass : passes_) {
      pass.Prefixes(text.substr(begin),
                    [&](size_t size, int32_t) { spans = spans || begin + size > at; });
    }
    if (spans) return true;
  }
  return false;
}

}  // namespace oneflow
