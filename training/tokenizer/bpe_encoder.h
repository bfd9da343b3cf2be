// BpeEncoder: byte-pair encoding. Text is split at its added tokens (added_tokens.h), and the text
// between them into words (word_split.h). A word's tokens are at first its bytes, or its characters
// by the rules of sentencepiece; then the pair of lowest rank merges, the leftmost of equals, until
// no pair of the vocabulary is left. Time n log n
// in the length of a word; earlier words are looked up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "training/tokenizer/added_tokens.h"
#include "training/tokenizer/bpe_vocabulary.h"

namespace oneflow {

// Not thread-safe. Invariant: seen_[word] is the range of seen_ids_ that holds the word's ids.
class BpeEncoder {
 public:
  BpeEncoder(BpeVocabulary vocabulary, bool finds_special)
      : vocabulary_(std::move(vocabulary)),
        added_(vocabulary_.added, FindNormalizer(vocabulary_.rules), finds_special) {}

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
  void EncodeWords(std::string_view text, std::vector<int32_t>* ids);
  void EncodeWord(std::string_view word, std::vector<int32_t>* ids);
  void BeginAsBytes(std::string_view word);
  void BeginAsCharacters(std::string_view word);
  void Propose(int32_t left);
  void Merge(const Candidate& pair);

  const BpeVocabulary vocabulary_;
  const AddedTokens added_;
  absl::flat_hash_map<std::string, Range> seen_;
  std::vector<int32_t> seen_ids_;
  // State of the current word; members, to reuse their memory.
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;  // a heap, lowest rank first
};

}  // namespace oneflow
