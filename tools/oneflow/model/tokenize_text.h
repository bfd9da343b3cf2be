// Converts texts to token files for `oneflow data`.
//
//   const TextSplit split = SplitText(documents, tokenizer, 0.1);
//   ASSIGN_OR_RETURN(EncodedText train, EncodeText(split.train, tokenizer, "train.bin", options));
//   RETURN_IF_ERROR(train.file.Finish());
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "training/data/token_file_writer.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

// A document, or what of it goes to one file.
struct TextPiece {
  std::string_view text;
  size_t document = 0;              // its index
  bool begins = true, ends = true;  // with the document
};
// The pieces that go to one file.
struct TextPart {
  std::vector<TextPiece> pieces;
  int64_t bytes() const;
};
struct TextSplit {
  TextPart train, validation;
};

// The last `validation` of the bytes are for validation. One document may be split: at the last
// position that the tokenizer allows, if that is within a tenth of the smaller part from the
// fraction; else where white space begins; else between two characters. Only the first keeps the
// ids of the complete text.
TextSplit SplitText(const std::vector<std::string_view>& documents, const Tokenizer& tokenizer,
                    double validation);

struct TokenizeOptions {
  TokenFormat format = TokenFormat::kNanoGpt;
  // The token that ends a text stands after each document; requires tokenizer.end_of_text. It is
  // not put twice where the tokenizer's template ends with it.
  bool end_of_text = false;
  std::function<void(int64_t bytes)> on_progress;  // bytes encoded since the last call; may be null
};

struct EncodedCounts {
  int64_t text_tokens = 0;     // but for those that stand around documents
  std::vector<size_t> silent;  // documents of which the tokenizer makes no token
};

// Encodes `part` piece by piece, and calls `append` with the ids of each, in order, and `on_piece`
// (may be null) after each TextPiece: memory does not grow with the text, but for words (bytes
// without white space between) of more than a megabyte. The ids of the tokenizer's template stand
// at the beginning and the end of each document. Errors are those of `append`.
absl::StatusOr<EncodedCounts> EncodePieces(
    const TextPart& part, const Tokenizer& tokenizer, const TokenizeOptions& options,
    const std::function<absl::Status(std::span<const int32_t>)>& append,
    const std::function<void()>& on_piece = nullptr);

struct EncodedText {
  TokenFileWriter file;  // not finished yet
  EncodedCounts counts;
};

// EncodePieces into the file `path`, which Finish of the result makes.
absl::StatusOr<EncodedText> EncodeText(const TextPart& part, const Tokenizer& tokenizer,
                                       const std::string& path, const TokenizeOptions& options);

}  // namespace oneflow
