#include "training/chat/token_mask.h"

#include <catch2/catch.hpp>
#include <string>

namespace oneflow {
namespace {

// A tokenizer whose id i has the i-th of these texts; "|" is special.
Tokenizer MakeTokenizer(const std::vector<std::string>& texts) {
  Tokenizer tokenizer;
  tokenizer.vocab = static_cast<int64_t>(texts.size());
  tokenizer.special = {{"|", 0}};
  tokenizer.bytes = [texts](int32_t id) { return std::string_view(texts[id]); };
  return tokenizer;
}

using Marks = std::vector<uint8_t>;

}  // namespace

TEST_CASE("a token counts if one of its bytes does, as in transformers") {
  const Tokenizer tokenizer = MakeTokenizer({"|", "ab", "c", "de"});
  const TokenMasker masker(tokenizer);
  const std::vector<int32_t> ids = {1, 2, 0, 3, 1};
  const std::string text = "abc|deab";
  CHECK(masker.Find(text, ids) == std::vector<ByteSpan>{{0, 2}, {2, 3}, {3, 4}, {4, 6}, {6, 8}});
  const auto mark = [&](std::vector<ByteSpan> spans) { return masker.Mark(text, ids, spans); };
  CHECK(mark({}) == Marks{0, 0, 0, 0, 0});
  CHECK(mark({{2, 4}}) == Marks{0, 1, 1, 0, 0});
  CHECK(mark({{1, 3}, {5, 7}}) == Marks{1, 1, 0, 1, 1});  // the ends are within tokens
  CHECK(mark({{0, 2}, {2, 2}, {7, 8}}) == Marks{1, 0, 0, 0, 1});
  CHECK(mark({{0, 8}}) == Marks{1, 1, 1, 1, 1});
}

TEST_CASE("tokens are found again where the tokenizer changes the text") {
  const Tokenizer tokenizer = MakeTokenizer({"|", "abcd", " x", "y"});
  const TokenMasker masker(tokenizer);
  // A space in front is not in the text.
  CHECK(masker.Find("xy|x", std::vector<int32_t>{2, 3, 0, 2}) ==
        std::vector<ByteSpan>{{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  // A normalizer: what is between special tokens is divided.
  CHECK(masker.Find("ABCDEFGH|y", std::vector<int32_t>{1, 1, 0, 3}) ==
        std::vector<ByteSpan>{{0, 4}, {4, 8}, {8, 9}, {9, 10}});
  // No special token follows, and one that is not in the text.
  CHECK(masker.Find("yQ", std::vector<int32_t>{3, 1, 0}) ==
        std::vector<ByteSpan>{{0, 1}, {1, 2}, {2, 2}});
}

}  // namespace oneflow
