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

#ifdef ONEFLOW_WIDE_VECTORS
#define ONEFLOW_AVX512 [[gnu::target("avx512f,avx512vl")]]
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

enum class Vectors { kUsual, kAvx2, kAvx512 };

const Vectors vectors = [] {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    return Vectors::kAvx512;
  }
  return __builtin_cpu_supports("avx2") ? Vectors::kAvx2 : Vectors::kUsual;
}();
#endif

// Four sums at a time, so that no multiplication waits for the one before.
class Hasher {
 public:
  void Add(size_t i, Cost cost) {
    uint64_t& lane = lanes_[i % 4];
    lane = (lane ^ static_cast<uint64_t>(cost)) * 1099511628211u;
  }
  uint64_t Result() const {
    uint64_t hash = 0;
    for (const uint64_t lane : lanes_) hash = (hash ^ (hash >> 29) ^ lane) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
  }

 private:
  uint64_t lanes_[4] = {1, 2, 3, 4};
};

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

uint64_t SubtractAndHash(Cost from, size_t length, Cost* costs) {
  Hasher hasher;
  for (size_t i = 0; i < length; ++i) {
    costs[i] = costs[i] >= kForbidden ? kForbidden : costs[i] - from;
    hasher.Add(i, costs[i]);
  }
  return hasher.Result();
}

uint64_t HashCosts(const Cost* costs, size_t length) {
  Hasher hasher;
  for (size_t i = 0; i < length; ++i) hasher.Add(i, costs[i]);
  return hasher.Result();
}

}  // namespace oneflow
