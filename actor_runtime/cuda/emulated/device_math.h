// Arithmetic of device code that has other names in C++, as far as the kernels use it: one that
// needs more adds it here, with CUDA's meaning.
#pragma once

#include <math.h>

#include <bit>

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
// No target of the emulation joins it with a sum.
inline float __fmul_rn(float x, float y) { return x * y; }

#define ONEFLOW_EMULATED_MIN_MAX(T)                \
  inline T min(T x, T y) { return y < x ? y : x; } \
  inline T max(T x, T y) { return x < y ? y : x; }
ONEFLOW_EMULATED_MIN_MAX(int)
ONEFLOW_EMULATED_MIN_MAX(unsigned)
ONEFLOW_EMULATED_MIN_MAX(long)
ONEFLOW_EMULATED_MIN_MAX(unsigned long)
ONEFLOW_EMULATED_MIN_MAX(long long)
ONEFLOW_EMULATED_MIN_MAX(unsigned long long)
#undef ONEFLOW_EMULATED_MIN_MAX
// The number, if the other one is NaN.
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
