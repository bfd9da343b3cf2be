// Converts texts to tokens for `oneflow data` and `oneflow train`, document by document, each in
// blocks of any size.
//
//   DocumentEncoder train(tokenizer, options, append);
//   RETURN_IF_ERROR(train.Begin());
//   RETURN_IF_ERROR(train.Add("a text of "));
//   RETURN_IF_ERROR(train.Add("two blocks"));
//   RETURN_IF_ERROR(train.End("book.txt"));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "training/data/text_reader.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

struct TokenizeOptions {
  // The token that ends a text stands after each document; requires tokenizer.end_of_text. It is
  // not put twice where the tokenizer's template ends with it.
  bool end_of_text = false;
  std::function<void(int64_t bytes)> on_progress;  // bytes encoded since the last call; may be null
};

struct EncodedCounts {
  int64_t documents = 0;                  // a part of one counts
  int64_t text_bytes = 0;                 // of these
  int64_t text_tokens = 0;                // but for those that stand around documents
  int64_t silent = 0;                     // documents of which the tokenizer makes no token
  std::vector<std::string> first_silent;  // their locations, of the first few
};

// Encodes documents, and calls `append` with their ids, in order, and `on_end` (may be null) after
// each. Ids do not depend on the blocks. Memory does not grow with the text, but for words (bytes
// without white space between) of more than a megabyte. The ids of the tokenizer's template stand
// at the beginning and the end of each document. Errors are those of `append`.
class DocumentEncoder {
 public:
  using Append = std::function<absl::Status(std::span<const int32_t>)>;
  DocumentEncoder(const Tokenizer& tokenizer, const TokenizeOptions& options, Append append,
                  std::function<void()> on_end = nullptr);

  // Begins a document, or with `part` the rest of one: no ids are put before it.
  absl::Status Begin(bool part = false);
  absl::Status Add(std::string_view text);
  // Ends it, or with `part` what of it comes here. `location`: of the document, for silent ones.
  absl::Status End(const std::string& location, bool part = false);

  const EncodedCounts& counts() const { return counts_; }

 private:
  absl::Status Encode(std::string_view text);

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  const Append append_;
  const std::function<void()> on_end_;
  std::vector<int32_t> end_;  // ids after a document
  std::vector<int32_t> ids_;
  std::string kept_;    // not encoded yet, because more may belong to it
  size_t limit_;        // kept_ has no split below it
  int64_t tokens_ = 0;  // of the document
  EncodedCounts counts_;
};

// Where the text for validation begins: the last `fraction` of `bytes`, of all texts.
struct ValidationShare {
  int64_t train_bytes = 0;
  int64_t reach = 0;  // how far before that a document may be split
};
ValidationShare ShareText(int64_t bytes, double fraction);

// Divides documents between training and validation. Those of a reader of records go to one of
// them: the document in which training would end is for validation. Another document is split: at
// the last position that the tokenizer allows, if that is within reach of the share (a tenth of the
// smaller part, and at most a megabyte in what is unpacked); else where white space begins; else
// between two characters. Only the first keeps the ids of the complete text.
class TextDivider {
 public:
  // Without `validation` (null) all is for training.
  TextDivider(const Tokenizer& tokenizer, const ValidationShare& share, DocumentEncoder* train,
              DocumentEncoder* validation)
      : tokenizer_(tokenizer), share_(share), train_(train), validation_(validation) {}

  // The next block of `reader`. `document_bytes`: of the document, if it is packed text.
  absl::Status Add(const TextReader& reader, const TextBlock& block, int64_t document_bytes = 0);

 private:
  absl::Status AddPart(const TextReader& reader, const TextBlock& block);
  absl::Status Divide(const std::string& location, int64_t reach);

  const Tokenizer& tokenizer_;
  ValidationShare share_;  // train_bytes: that are left
  DocumentEncoder* const train_;
  DocumentEncoder* const validation_;
  enum class Fate { kTrain, kValidation, kSplit } fate_ = Fate::kTrain;  // of the document
  std::string_view window_;  // of a document that is split: where the split will be
  std::string window_text_;
  int64_t sent_ = 0;  // bytes of it before the window, which are encoded
};

}  // namespace oneflow
