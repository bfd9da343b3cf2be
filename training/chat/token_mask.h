// Which tokens of a text count as labels, where some of its bytes do.
//
//   std::vector<int32_t> ids;
//   tokenizer.encode(text, &ids);
//   const TokenMasker masker(tokenizer);
//   const std::vector<uint8_t> counts = masker.Mark(text, ids, {{begin, end}});
//   counts[i]   // 1: token i has a byte of one of the spans
//
// As transformers' return_assistant_tokens_mask does, a token that is partly in a span counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

struct ByteSpan {
  size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

// Made once for many texts. The tokenizer outlives it.
class TokenMasker {
 public:
  explicit TokenMasker(const Tokenizer& tokenizer);

  // The bytes of `text` that each of its ids was made of. Where the tokenizer changes a text (its
  // normalizer, the space that it puts in front), they are found again at the next special token,
  // and those between are divided as the bytes of the ids are.
  std::vector<ByteSpan> Find(std::string_view text, std::span<const int32_t> ids) const;

  // A byte for each id: 1 if it counts. Requires spans in ascending order.
  std::vector<uint8_t> Mark(std::string_view text, std::span<const int32_t> ids,
                            std::span<const ByteSpan> spans) const;

 private:
  const Tokenizer& tokenizer_;
  absl::flat_hash_set<int32_t> special_;
};

}  // namespace oneflow
