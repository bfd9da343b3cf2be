// AddedTokens: finds the added tokens of a vocabulary in a text, as Hugging Face's tokenizers does:
// from the left, at each position the longest; first the tokens that are not normalized, then the
// others in the text between them. A special token takes part in the search, but stays text unless
// `finds_special`.
//
//   const AddedTokens added(vocabulary.added, ComposeNfc, /*finds_special=*/false);
//   added.Split(text, [&](std::string_view part, std::optional<int32_t> id) { ... });
//
// Invariant: the parts, one after the other, are the text; those between the tokens that are not
// normalized are normalized, each as a text of its own. They are valid during the call only.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/tokenizer/bpe_vocabulary.h"
#include "training/tokenizer/piece_trie.h"

namespace oneflow {

class AddedTokens {
 public:
  // `id`: the added token of `part`; none: ordinary text, which is not empty.
  using OnPart = std::function<void(std::string_view part, std::optional<int32_t> id)>;

  // `normalize` may be null: a text stays as it is.
  using Normalizer = std::function<std::string(std::string_view)>;

  AddedTokens(const std::vector<AddedToken>& tokens, Normalizer normalize, bool finds_special);

  void Split(std::string_view text, const OnPart& on_part) const;
  // True if a token may begin before `at` < text.size() and end after it. If false, the two sides
  // of `at` can be split separately. Requires ASCII on both sides of `at`.
  bool MaySpan(std::string_view text, size_t at) const;

 private:
  bool MaySpan(const PieceTrie& pass, std::string_view text, size_t at) const;
  void SplitBy(size_t pass, std::string_view text, const OnPart& on_part) const;

  Normalizer normalize_;
  std::array<PieceTrie, 2> passes_;         // not normalized, normalized
  std::array<std::bitset<256>, 2> firsts_;  // the first bytes of their tokens
  std::array<bool, 2> empty_ = {true, true};
  std::vector<AddedToken> tokens_;  // by id, without their texts; `special`: it stays text
  size_t longest_ = 0;              // bytes of a token
};

}  // namespace oneflow
