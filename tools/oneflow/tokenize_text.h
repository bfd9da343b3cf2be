// Texts to token files: what `oneflow data` does once flags are read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/data/token_file_writer.h"
#include "actor_runtime/tokenizer/tokenizer.h"

namespace oneflow {

// Part of the texts: the documents, or pieces of them, that go to one file.
struct TextPart {
  std::vector<std::string_view> documents;
  int64_t bytes() const;
};
struct TextSplit {
  TextPart train, validation;
};

// The last `validation` of the bytes, rounded to where the tokenizer may cut, are for validation.
TextSplit SplitText(const std::vector<std::string_view>& documents, const Tokenizer& tokenizer,
                    double validation);

struct TokenizeOptions {
  TokenFormat format = TokenFormat::kNanoGpt;
  bool end_of_text = false;  // after each document; requires tokenizer.end_of_text
  std::function<void(int64_t bytes)> on_progress;  // bytes encoded since the last call; may be null
};

struct TokenizedFile {
  std::string path;
  int64_t text_bytes = 0, tokens = 0;
  int token_bytes = 0;
};

// Encodes `part` piece by piece into the file `path`: memory does not grow with the text, but for
// words (bytes without white space between) of more than a megabyte.
absl::StatusOr<TokenizedFile> TokenizeText(const TextPart& part, const Tokenizer& tokenizer,
                                           const std::string& path, const TokenizeOptions& options);

}  // namespace oneflow
