// Common parts of the tests of tokenizers: a tokenizer that must load, and its ids of a text.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "training/tokenizer/tokenizer.h"

namespace oneflow {

// Fails the test if `spec` does not load.
inline Tokenizer Load(const std::string& spec) { return LoadTokenizer(spec).value(); }

inline std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, &ids);
  return ids;
}

}  // namespace oneflow
