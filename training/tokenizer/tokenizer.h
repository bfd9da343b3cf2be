// Tokenizer: from text to token ids and back. The families are:
//
//   bytes          a byte is a token; ids 0 .. 255
//   gpt2:FOLDER    byte-pair encoding of GPT-2's vocab.json and merges.txt in FOLDER
//   FILE.json      byte-pair encoding of a tokenizer.json of Hugging Face (docs/data.md)
//   FILE.model     a unigram or BPE model of sentencepiece
//   FOLDER         the tokenizer of this folder: tokenizer.json, tokenizer.model, or GPT-2's files
//
// The files beside it say more (tokenizer_settings.h): the ids of BOS and EOS, and whether they
// stand around a text.
//
//   ASSIGN_OR_RETURN(Tokenizer tokenizer, LoadTokenizer("gpt2:models/gpt2"));
//   std::vector<int32_t> ids;
//   tokenizer.encode("The ", &ids);
//   for (int32_t id : ids) text += tokenizer.bytes(id);
//
// Guarantees: any bytes can be encoded, also invalid UTF-8, and the bytes of the ids, one after the
// other, equal the text. The exceptions are sentencepiece, which returns the text as changed by its
// normalizer and its unknown piece, with a space in front; and a tokenizer.json that normalizes: it
// returns the normalized text. One whose vocabulary lacks a byte leaves it out, or has its unknown
// token instead, as the library does. Text is only text:
// "<|endoftext|>" in it does not become the special token, unless the tokenizer was loaded to find
// special tokens:
//
//   ASSIGN_OR_RETURN(Tokenizer tokenizer, LoadTokenizer(folder, {.special = true}));
//   tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n", &ids);
//   const auto end = tokenizer.special.find("<|im_end|>");
//
// Added tokens that are not special (runs of spaces in vocabularies for code) are always found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

struct Tokenizer {
  int64_t vocab = 0;  // ids are below it
  TokenizerId id;
  std::optional<int32_t> begin_of_text;  // BOS, where it is known
  std::optional<int32_t> end_of_text;    // the token that ends a document, where there is one
  std::vector<int32_t> stops;       // a generated text ends after any: end_of_text, ends of a turn
  std::vector<int32_t> begin, end;  // added by its template around a document, not by `encode`
  // Its special tokens: the id of each by its text, "<|im_end|>".
  std::map<std::string, int32_t, std::less<>> special;
  std::string config;  // tokenizer_config.json that belongs to its files; empty: none
  // Appends the ids of `text`. One call at a time, because it caches words.
  std::function<void(std::string_view text, std::vector<int32_t>* ids)> encode;
  // The bytes of an id below `vocab`; a character may be spread over several ids.
  std::function<std::string_view(int32_t id)> bytes;
  // The largest position <= limit <= text.size() at which `text` may be split in two without
  // changing its ids; 0 if there is none. For sentencepiece, whose texts are lines, the position is
  // after a line: the next line begins like a separate text.
  std::function<size_t(std::string_view text, size_t limit)> find_split;
};

struct TokenizerOptions {
  // `encode` finds special tokens in a text, as Hugging Face's tokenizers does, and `find_split`
  // splits none. Neither `id` nor `begin` and `end` depend on it.
  bool special = false;
};

// `spec` as above. Errors name the file and its mistake.
absl::StatusOr<Tokenizer> LoadTokenizer(const std::string& spec,
                                        const TokenizerOptions& options = {});

}  // namespace oneflow
