// Pairs of things that are numbered from 0, in either order, and sets of such things: as bits, for
// a pass asks of nearly every pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oneflow {

// Numbers below `n`.
class BitSet {
 public:
  explicit BitSet(size_t n) : words_((n + 63) / 64, 0) {}
  void Insert(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void Erase(size_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  bool Contains(size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void InsertAll(const BitSet& others) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= others.words_[w];
  }

 private:
  std::vector<uint64_t> words_;
};

class Pairs {
 public:
  explicit Pairs(size_t things) : with_(things, BitSet(things)) {}
  // i with each of `others`.
  void Add(size_t i, const BitSet& others) { with_[i].InsertAll(others); }
  void Add(size_t i, size_t j) { with_[i].Insert(j); }
  void Remove(size_t i, size_t j) { with_[i].Erase(j), with_[j].Erase(i); }
  // Requires i != j.
  bool Contains(size_t i, size_t j) const { return with_[i].Contains(j) || with_[j].Contains(i); }

 private:
  std::vector<BitSet> with_;  // by thing: those that it was added with
};

}  // namespace oneflow
