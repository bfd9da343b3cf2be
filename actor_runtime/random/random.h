// Random numbers as a pure function: no generator, no state. Number i of a stream depends on (seed,
// name of the stream, i) alone, so any device, thread or shard computes any of them in any order
// and gets the same bits.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011): the seed is the key, (index, hash of the name) the counter.
//
//   RandomStream weights(seed, "h.0.mlp.fc.weight");
//   weights.Normals(begin, values);   // values[k] = normal number begin + k of the stream
//
// Not for secrets.
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
  RandomStream(uint64_t seed, std::string_view name);

  // 128 random bits. The methods below are all made of them: use one of them a stream.
  PhiloxBlock Bits(uint64_t index) const;

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
