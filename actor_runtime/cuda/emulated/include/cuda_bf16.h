// bf16 for the emulated GPU. Names and meanings are CUDA's: rounding is to nearest, ties to even,
// and every NaN becomes 0x7fff. Only conversions: kernels compute in float.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda_runtime.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(__nv_bfloat16_raw raw) : bits_(raw.x) {}
  operator __nv_bfloat16_raw() const { return {bits_}; }

 private:
  unsigned short bits_;
};

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
  return static_cast<__nv_bfloat16_raw>(x).x;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }

inline float __bfloat162float(__nv_bfloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(__bfloat16_as_ushort(x)) << 16);
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  if (x != x) return __ushort_as_bfloat16(0x7fff);
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return __ushort_as_bfloat16(
      static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}
