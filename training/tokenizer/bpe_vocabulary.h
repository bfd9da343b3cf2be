// BpeVocabulary: the vocabulary of a byte-pair encoding: the bytes of each id, and the pairs of ids
// that merge into one, in order. Its words begin as bytes, or as characters with a fallback to
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "training/tokenizer/text_ends.h"
#include "training/tokenizer/text_pipeline.h"
#include "training/tokenizer/word_split.h"
#include "training/tokenizer/write_pieces.h"

namespace oneflow {

// A token beside the model's own, written in plain text.
struct AddedToken {
  std::string text;
  int64_t id = 0;
  bool special = false;                 // never found in a text, which is only text
  bool normalized = false;              // searched after the tokens that are not
  bool single_word = false;             // only where no character of a word is beside it
  bool lstrip = false, rstrip = false;  // takes the white space before it, and after it
  bool operator==(const AddedToken&) const = default;
};

// The rules by which a text becomes words, and words tokens.
struct BpeRules {
  // Null: the rules of sentencepiece. The text is one word, its spaces are written as U+2581; it
  // begins as characters, and a character that is no token as bytes, written "<0x41>".
  const WordPattern* words = &kGpt2Words;
  SpaceInFront space_in_front = SpaceInFront::kNone;
  // By sentencepiece's rules: spaces are written before added tokens that are normalized are found.
  bool writes_first = false;
  bool nfc = false;  // the text is brought to Unicode's composed form first
  // Other rules of a tokenizer.json, instead of those above; may be null.
  std::shared_ptr<const TextPipeline> pipeline;
  bool ignore_merges = false;  // a word that is a token becomes it, whatever its pairs merge to
  // What is no token becomes this one, a run of it once with `fuse_unknown`; without `unknown` it
  // is left out where `drops_unknown`, else refused.
  std::string unknown;
  bool fuse_unknown = false, drops_unknown = false;
  bool byte_fallback = true;  // first, a character that is no token becomes those of its bytes
  // Written before the characters of a word but the first, and after its last.
  std::string subword_prefix, word_suffix;

  // Words begin as characters, not as bytes.
  bool of_characters() const { return pipeline ? !pipeline->of_bytes : words == nullptr; }
};

struct BpeVocabulary {
  struct Merge {
    int32_t rank;  // lower ranks merge first
    int32_t id;    // of the merged token
  };
  static uint64_t Pair(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  std::vector<std::string> tokens;      // bytes, by id; ids that nobody uses are empty
  std::array<int32_t, 256> id_of_byte;  // by byte: its id; -1: none
  std::optional<int32_t> unknown;
  absl::flat_hash_map<uint64_t, Merge> merges;  // by Pair(left, right)
  // The ends of tokens that a merge joins: the last byte, or character, of the left one, and the
  // first of the right one.
  std::vector<std::pair<int32_t, int32_t>> joins;
  BpeRules rules;
  // Tokens as they are written in a word: with ignore_merges, or where words are of characters.
  absl::flat_hash_map<std::string, int32_t> id_of_word;
  std::optional<int32_t> begin_of_text;
  TextEnds ends;
  std::vector<AddedToken> added;
  std::vector<int32_t> begin, end;  // ids around each document
  std::string hash;                 // tokenizer_id.h
};

// The content of the files. Tokens of a byte-level BPE are written in GPT-2's alphabet, in which
// every byte is a printable character: "Ġthe" is " the".
struct BpeListing {
  std::vector<std::pair<std::string, int64_t>> vocab;       // token, id
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  BpeRules rules;
  std::vector<AddedToken> added;
  std::vector<int64_t> begin, end;  // ids that the file's template puts around a text
  std::optional<int64_t> begin_of_text;
  std::vector<int64_t> ends;  // of a text or a turn, as the files beside it say, the first first
};

// `where`: the file, for messages. Errors: an id that is negative, taken twice or absurdly large; a
// merge of tokens, or into a token, that are not in the vocabulary; a byte without a token; an
// added token whose id is another in the vocabulary; a template with an id that no token has.
absl::StatusOr<BpeVocabulary> MakeBpeVocabulary(std::string_view where, const BpeListing& listing);

}  // namespace oneflow
