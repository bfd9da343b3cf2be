// RandomStream: random numbers as a pure function: no generator, no state. Number i of a stream
// depends on (seed, name of the stream, i) alone, so any device, thread or shard computes any of
// them in any order and gets the same bits.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011): the seed is the key, (index, hash of the name) the counter.
//
//   RandomStream weights(seed, "h.0.mlp.fc.weight");
//   weights.Normals(begin, values);   // values[k] = normal number begin + k of the stream
//   RandomStream step7(seed, "h.0.attn.drop", 7);   // part 7 of a name is a separate stream
//
// It is not for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace oneflow {

// One Philox4x32-10 block: 128 random bits for a 128-bit counter and a 64-bit key.
using PhiloxBlock = std::array<uint32_t, 4>;
PhiloxBlock Philox4x32(PhiloxBlock counter, uint64_t key);

class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name, uint64_t part = 0);

  // The key of its blocks, and the upper half of their counters, for code that makes blocks in bulk
  // (kernel/simd/random.inc.h).
  uint64_t key() const { return key_; }
  uint64_t stream() const { return stream_; }

  // 128 random bits. The methods below all use these bits: call only one of them on a stream.
  PhiloxBlock Bits(uint64_t index) const;

  // 32 random bits. Groups of 32 words are 8 blocks: first the words 0 and 1 of each, then the
  // words 2 and 3, so that a vector of blocks is stored as it was computed.
  uint32_t Word(uint64_t index) const;

  // Uniform in [0, n), n >= 1. The bias is below n / 2^64.
  uint64_t Below(uint64_t index, uint64_t n) const;

  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform(uint64_t index) const;

  // Standard normal numbers begin, begin + 1, ... (Box-Muller in f64). Allocates nothing.
  void Normals(uint64_t begin, std::span<double> values) const;

 private:
  uint64_t key_;
  uint64_t stream_;
};

}  // namespace oneflow
