// Pairs of things that are numbered from 0, in either order, and sets of such things. Both are
// bits, because a pass asks for nearly every pair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace oneflow {

// A set of numbers below `n`.
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
  friend class Pairs;
  std::vector<uint64_t> words_;
};

class Pairs {
 public:
  explicit Pairs(size_t things) : with_(things, BitSet(things)) {}
  // Adds the pairs of i with each of `others`.
  void Add(size_t i, const BitSet& others) { with_[i].InsertAll(others); }
  void Add(size_t i, size_t j) { with_[i].Insert(j); }
  void Remove(size_t i, size_t j) { with_[i].Erase(j), with_[j].Erase(i); }
  // Requires i != j.
  bool Contains(size_t i, size_t j) const { return with_[i].Contains(j) || with_[j].Contains(i); }
  // Returns by thing all that it is paired with.
  std::vector<BitSet> InBothOrders() && {
    const size_t blocks = (with_.size() + 63) / 64;
    for (size_t a = 0; a < blocks; ++a) {
      for (size_t b = 0; b <= a; ++b) {
        const Block ab = Get(a, b), ba = Get(b, a);
        InsertAll(a, b, Turned(ba));
        InsertAll(b, a, Turned(ab));
      }
    }
    return std::move(with_);
  }

 private:
  // Bits of 64 things by 64.
  using Block = std::array<uint64_t, 64>;

  // Swaps ever smaller squares above the diagonal with those below it.
  static Block Turned(Block bits) {
    uint64_t low = 0xffffffff;
    for (int half = 32; half > 0; half /= 2, low ^= low << half) {
      for (int i = 0; i < 64; i = (i + half + 1) & ~half) {
        const uint64_t differ = (bits[i] >> half ^ bits[i + half]) & low;
        bits[i] ^= differ << half, bits[i + half] ^= differ;
      }
    }
    return bits;
  }
  Block Get(size_t a, size_t b) const {
    Block block{};
    for (size_t i = 0; i < 64 && 64 * a + i < with_.size(); ++i) {
      block[i] = with_[64 * a + i].words_[b];
    }
    return block;
  }
  void InsertAll(size_t a, size_t b, const Block& block) {
    for (size_t i = 0; i < 64 && 64 * a + i < with_.size(); ++i) {
      with_[64 * a + i].words_[b] |= block[i];
    }
  }

  std::vector<BitSet> with_;  // by thing: those that it was added with
};

}  // namespace oneflow
