// bfloat16: the upper half of an f32, for storage. Sums and statistics are kept in f32.
//
// It is not a number type: no arithmetic, only exact widening and correctly rounded narrowing.
// Guarantee: ToBf16 rounds to nearest, ties to even, as the AVX512-BF16 instructions do for normal
// numbers; NaN stays NaN (quiet); what is too large becomes infinity.
//
//   Bf16 h = ToBf16(1.00390625f);  // halfway: 1.0
//   float f = ToFloat(h);
#pragma once

#include <bit>
#include <cstdint>

namespace oneflow {

struct Bf16 {
  uint16_t bits;
  friend constexpr bool operator==(Bf16 a, Bf16 b) { return a.bits == b.bits; }
};

constexpr float ToFloat(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

constexpr Bf16 ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  // Half of the last kept place, less one where the kept part is even.
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

}  // namespace oneflow
