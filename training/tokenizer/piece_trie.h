// PieceTrie: a map from strings to numbers that finds all prefixes of a text.
//
//   PieceTrie trie;
//   trie.Add("ab", 7);
//   trie.Prefixes("abc", [](size_t length, int32_t value) { ... });   // 2, 7
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace oneflow {

class PieceTrie {
 public:
  void Add(std::string_view piece, int32_t value) {
    uint64_t node = 0;
    for (const char c : piece)
      node = next_.try_emplace(Edge(node, c), next_.size() + 1).first->second;
    values_.resize(next_.size() + 1, -1);
    values_[node] = value;
  }

  // Calls fn(length, value) for each string that is a prefix of `text`, the shortest first.
  template <typename Fn>
  void Prefixes(std::string_view text, Fn fn) const {
    uint64_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto it = next_.find(Edge(node, text[i]));
      if (it == next_.end()) return;
      node = it->second;
      if (values_[node] >= 0) fn(i + 1, values_[node]);
    }
  }

  // The length of the longest string that is a prefix of `text`; 0 if there is none.
  size_t Longest(std::string_view text) const {
    size_t longest = 0;
    Prefixes(text, [&longest](size_t length, int32_t) { longest = length; });
    return longest;
  }

 private:
  static uint64_t Edge(uint64_t node, char c) { return node << 8 | static_cast<unsigned char>(c); }

  absl::flat_hash_map<uint64_t, uint64_t> next_;  // edge -> node; the root is 0
  std::vector<int32_t> values_ = {-1};            // by node; -1: no string ends here
};

}  // namespace oneflow
