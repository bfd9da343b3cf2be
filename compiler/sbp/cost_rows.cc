#include "compiler/sbp/cost_rows.h"

#if defined(__x86_64__)
#define ONEFLOW_WIDE_VECTORS 1
#endif

namespace oneflow {
namespace {

// The loops are compiled once for each kind of vector, so they are inlined into what has the kind.
#define ONEFLOW_LOOP [[gnu::always_inline]] inline

ONEFLOW_LOOP Cost Lesser(Cost a, Cost b) { return a < b ? a : b; }

template <size_t kRows>
ONEFLOW_LOOP void LowerLoop(Cost sum, const Cost* const* rows, size_t length,
                            Cost* __restrict least) {
  const Cost* const a = kRows > 0 ? rows[0] : nullptr;
  const Cost* const b = kRows > 1 ? rows[1] : nullptr;
  const Cost* const c = kRows > 2 ? rows[2] : nullptr;
  const Cost* const d = kRows > 3 ? rows[3] : nullptr;
  for (size_t i = 0; i < length; ++i) {
    Cost total = sum;
    if constexpr (kRows > 0) total += a[i];
    if constexpr (kRows > 1) total += b[i];
    if constexpr (kRows > 2) total += c[i];
    if constexpr (kRows > 3) total += d[i];
    least[i] = Lesser(least[i], total);
  }
}

ONEFLOW_LOOP void Lower(Cost sum, const Cost* const* rows, size_t count, size_t length,
                        Cost* least) {
  switch (count) {
    case 0: return LowerLoop<0>(sum, rows, length, least);
    case 1: return LowerLoop<1>(sum, rows, length, least);
    case 2: return LowerLoop<2>(sum, rows, length, least);
    case 3: return LowerLoop<3>(sum, rows, length, least);
    default: return LowerLoop<4>(sum, rows, length, least);
  }
}

ONEFLOW_LOOP void AddLoop(const Cost* a, const Cost* b, size_t length, Cost* sums) {
  for (size_t i = 0; i < length; ++i) sums[i] = Lesser(a[i] + b[i], kForbidden);
}

ONEFLOW_LOOP Cost LeastLoop(const Cost* costs, size_t length) {
  Cost least = kForbidden;
  for (size_t i = 0; i < length; ++i) least = Lesser(least, costs[i]);
  return least;
}

// Eight sums at a time, so that no multiplication waits for the one before.
constexpr size_t kLanes = 8;

ONEFLOW_LOOP uint64_t HashLoop(Cost from, size_t length, Cost* costs) {
  uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto add = [&](size_t lane, Cost * cost) __attribute__((always_inline)) {
    *cost = *cost >= kForbidden ? kForbidden : *cost - from;
    lanes[lane] = (lanes[lane] ^ static_cast<uint64_t>(*cost)) * 1099511628211u;
  };
  size_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(lane, costs + i + lane);
  }
  for (; i < length; ++i) add(i % kLanes, costs + i);
  uint64_t hash = 0;
  for (const uint64_t lane : lanes) hash = (hash ^ (hash >> 29) ^ lane) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

#ifdef ONEFLOW_WIDE_VECTORS
#define ONEFLOW_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl")]]
#define ONEFLOW_AVX2 [[gnu::target("avx2")]]

ONEFLOW_AVX512 void LowerAvx512(Cost sum, const Cost* const* rows, size_t count, size_t length,
                                Cost* least) {
  Lower(sum, rows, count, length, least);
}
ONEFLOW_AVX2 void LowerAvx2(Cost sum, const Cost* const* rows, size_t count, size_t length,
                            Cost* least) {
  Lower(sum, rows, count, length, least);
}
ONEFLOW_AVX512 void AddAvx512(const Cost* a, const Cost* b, size_t length, Cost* sums) {
  AddLoop(a, b, length, sums);
}
ONEFLOW_AVX2 void AddAvx2(const Cost* a, const Cost* b, size_t length, Cost* sums) {
  AddLoop(a, b, length, sums);
}

ONEFLOW_AVX512 Cost LeastAvx512(const Cost* costs, size_t length) {
  return LeastLoop(costs, length);
}
ONEFLOW_AVX2 Cost LeastAvx2(const Cost* costs, size_t length) { return LeastLoop(costs, length); }
ONEFLOW_AVX512 uint64_t SubtractAvx512(Cost from, size_t length, Cost* costs) {
  return HashLoop(from, length, costs);
}

enum class Vectors { kUsual, kAvx2, kAvx512 };

const Vectors vectors = [] {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Vectors::kAvx512;
  }
  return __builtin_cpu_supports("avx2") ? Vectors::kAvx2 : Vectors::kUsual;
}();
#endif

}  // namespace

void LowerToSums(Cost sum, const Cost* const* rows, size_t count, size_t length, Cost* least) {
#ifdef ONEFLOW_WIDE_VECTORS
  if (vectors == Vectors::kAvx512) return LowerAvx512(sum, rows, count, length, least);
  if (vectors == Vectors::kAvx2) return LowerAvx2(sum, rows, count, length, least);
#endif
  Lower(sum, rows, count, length, least);
}

void AddRows(const Cost* a, const Cost* b, size_t length, Cost* sums) {
#ifdef ONEFLOW_WIDE_VECTORS
  if (vectors == Vectors::kAvx512) return AddAvx512(a, b, length, sums);
  if (vectors == Vectors::kAvx2) return AddAvx2(a, b, length, sums);
#endif
  AddLoop(a, b, length, sums);
}

Cost FindLeast(const Cost* costs, size_t length) {
#ifdef ONEFLOW_WIDE_VECTORS
  if (vectors == Vectors::kAvx512) return LeastAvx512(costs, length);
  if (vectors == Vectors::kAvx2) return LeastAvx2(costs, length);
#endif
  return LeastLoop(costs, length);
}

uint64_t SubtractAndHash(Cost from, size_t length, Cost* costs) {
#ifdef ONEFLOW_WIDE_VECTORS
  if (vectors == Vectors::kAvx512) return SubtractAvx512(from, length, costs);
#endif
  return HashLoop(from, length, costs);
}

}  // namespace oneflow
