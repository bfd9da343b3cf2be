// BpeEncoder: byte-pair encoding. Text is split at its added tokens (added_tokens.h), and the text
// between them into words (word_split.h, pre_tokenizer.h). A word's tokens are at first its bytes,
// or its characters; then the pair of lowest rank merges, the leftmost of equals, until no pair of
// the vocabulary is left. Time n log n in the length of a word; earlier words are looked up.
//
// A long word is split where no merge can join its sides: where the character before ends no left
// token of a merge whose right one begins with the character after. So a text that is one word, as
// of Llama 2 and Gemma, is encoded word for word.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "training/tokenizer/added_tokens.h"
#include "training/tokenizer/bpe_vocabulary.h"

namespace oneflow {

// Not thread-safe. Invariant: seen_[word] is the range of seen_ids_ that holds the word's ids.
class BpeEncoder {
 public:
  BpeEncoder(BpeVocabulary vocabulary, bool finds_special);

  // Appends the ids of `text`.
  void Encode(std::string_view text, std::vector<int32_t>* ids);
  // The largest position <= limit at which `text` may be split in two without changing its ids; 0
  // if there is none. By the rules of sentencepiece, the position after a line.
  size_t FindSplit(std::string_view text, size_t limit) const;
  const BpeVocabulary& vocabulary() const { return vocabulary_; }

 private:
  // A token of the current word; merged tokens are removed from the list.
  struct Symbol {
    int32_t id, previous, next;  // next: -1 at the end; id -1: merged into its left neighbour
  };
  // A pair that may merge. It is stale if either symbol has changed since.
  struct Candidate {
    int32_t rank, left, left_id, right_id, merged;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  struct Range {
    size_t begin, size;
  };

  static AddedTokens::Normalizer FindNormalizer(const BpeRules& rules);
  void FindJoins();
  // True if no merge joins a token that ends in `left` with one that begins with `right`: bytes, or
  // characters, which are tokens.
  bool NeverJoins(int32_t left, int32_t right) const;
  void FindSplitPairs();
  size_t FindLineEnd(std::string_view text, size_t limit) const;

  void EncodeWords(std::string_view text, std::vector<int32_t>* ids);
  void EncodeSeen(std::string_view word, std::vector<int32_t>* ids);
  void EncodeLong(std::string_view word, std::vector<int32_t>* ids);
  void EncodeWord(std::string_view word, std::vector<int32_t>* ids);
  void MergeWord(std::string_view word, std::vector<int32_t>* ids);
  void BeginAsBytes(std::string_view word);
  void BeginAsCharacters(std::string_view word);
  void AddSymbol(int32_t id);
  void AddUnknown();
  void Propose(int32_t left);
  void Merge(const Candidate& pair);

  const BpeVocabulary vocabulary_;
  const AddedTokens added_;
  absl::flat_hash_map<std::string, Range> seen_;
  std::vector<int32_t> seen_ids_;
  // Where merges join: by the two bytes, or the two characters.
  std::bitset<1 << 16> joined_bytes_;
  absl::flat_hash_set<uint64_t> joined_characters_;
  absl::flat_hash_set<int32_t> known_characters_;
  bool splits_words_ = false;
  // By left and right character, ASCII: a text may be split between them. Of a pipeline.
  std::bitset<1 << 14> split_pairs_;
  bool splits_at_lines_ = false;
  // State of the current word; members, to reuse their memory.
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;  // a heap, lowest rank first
  bool unknown_ = false;               // the unknown token is to be added
};

}  // namespace oneflow
