// Vectors of the chosen width: loads, stores, sums in a fixed order, exp. Part of
// vector_kernels.inc.h.

template <typename T>
struct VecType {
  typedef T type __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));
};
template <typename T>
using Vec = typename VecType<T>::type;
template <typename T>
inline constexpr int64_t kWidth = ONEFLOW_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));

#define ONEFLOW_INLINE inline __attribute__((always_inline))
#define ONEFLOW_INLINED __attribute__((always_inline))  // of a lambda

// The bits of a vector of floats, and their upper halves: bf16 in memory.
typedef uint32_t VecBits __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));
typedef uint16_t VecHalves __attribute__((vector_size(ONEFLOW_VECTOR_BYTES / 2)));

#if defined(__AVX512F__)
// A mask of all lanes: the intrinsics without a mask read a variable that nobody sets, which GCC 12
// reports.
inline constexpr __mmask16 kAll = 0xffff;
#endif

ONEFLOW_INLINE Vec<float> Widen(VecHalves h) {
#if defined(__AVX512F__)  // by halves the compiler would widen, and join them
  return (Vec<float>)((VecBits)_mm512_maskz_cvtepu16_epi32(kAll, (__m256i)h) << 16);
#else
  return (Vec<float>)(__builtin_convertvector(h, VecBits) << 16);
#endif
}

// ToBf16 of each lane, by integers: AVX512-BF16's instruction would make denormals zero.
ONEFLOW_INLINE VecHalves Round(Vec<float> v) {
  const VecBits bits = (VecBits)v;
  const VecBits nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const VecBits quiet = bits >> 16 | 0x40;
  return __builtin_convertvector(v == v ? nearest : quiet, VecHalves);
}

// Elements in memory are T, or Bf16 where T is float.
template <typename T, typename S>
ONEFLOW_INLINE Vec<T> Load(const S* p) {
  if constexpr (sizeof(S) == 2) {
    VecHalves h;
    __builtin_memcpy(&h, p, sizeof h);
    return Widen(h);
  } else {
    Vec<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
}

template <typename T, typename S>
ONEFLOW_INLINE void Store(S* p, Vec<T> v) {
  if constexpr (sizeof(S) == 2) {
    const VecHalves h = Round(v);
    __builtin_memcpy(p, &h, sizeof h);
  } else {
    __builtin_memcpy(p, &v, sizeof v);
  }
}

// The first n < width elements; the others are `fill`.
template <typename T, typename S>
ONEFLOW_INLINE Vec<T> LoadPart(const S* p, int64_t n, T fill = 0) {
  S narrow[kWidth<T>] = {};
  for (int64_t i = 0; i < n; ++i) narrow[i] = p[i];
  T lanes[kWidth<T>];
  Store<T>(lanes, Load<T>(narrow));
  for (int64_t i = n; i < kWidth<T>; ++i) lanes[i] = fill;
  return Load<T>(lanes);
}

template <typename T, typename S>
ONEFLOW_INLINE void StorePart(S* p, Vec<T> v, int64_t n) {
  S lanes[kWidth<T>];
  Store<T>(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

template <typename T>
ONEFLOW_INLINE Vec<T> Broadcast(T x) {
  return x - Vec<T>{};  // folds to a broadcast; 0 + x would not (-0)
}

// b if one of them is not a number, on every instruction set.
template <typename T>
ONEFLOW_INLINE Vec<T> Max(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_max_ps(kAll, (__m512)a, (__m512)b);
#endif
  return a > b ? a : b;
}
template <typename T>
ONEFLOW_INLINE Vec<T> Min(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_min_ps(kAll, (__m512)a, (__m512)b);
#endif
  return a < b ? a : b;
}

ONEFLOW_INLINE float Root(float x) { return __builtin_sqrtf(x); }
ONEFLOW_INLINE double Root(double x) { return __builtin_sqrt(x); }

template <typename T>
ONEFLOW_INLINE Vec<T> Sqrt(Vec<T> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_sqrt_ps((__m512)v);
  if constexpr (sizeof(T) == 8) return (Vec<T>)_mm512_sqrt_pd((__m512d)v);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) return (Vec<T>)_mm256_sqrt_ps((__m256)v);
  if constexpr (sizeof(T) == 8) return (Vec<T>)_mm256_sqrt_pd((__m256d)v);
#else
  for (int64_t i = 0; i < kWidth<T>; ++i) v[i] = Root(v[i]);
  return v;
#endif
}

// Halves are joined by f until one lane is left: the same order for every caller.
template <typename T, int kHalf, typename F, size_t... J>
ONEFLOW_INLINE T Fold(Vec<T> v, F f, std::index_sequence<J...> lanes) {
  v = f(v, __builtin_shufflevector(v, v, ((J + kHalf) % sizeof...(J))...));
  if constexpr (kHalf > 1) return Fold<T, kHalf / 2>(v, f, lanes);
  return v[0];
}

template <typename T>
ONEFLOW_INLINE T Sum(Vec<T> v) {
  constexpr int kW = static_cast<int>(kWidth<T>);
  return Fold<T, kW / 2>(
      v, [](Vec<T> a, Vec<T> b) { return a + b; }, std::make_index_sequence<kW>());
}

template <typename T>
ONEFLOW_INLINE T MaxLane(Vec<T> v) {
  constexpr int kW = static_cast<int>(kWidth<T>);
  return Fold<T, kW / 2>(
      v, [](Vec<T> a, Vec<T> b) { return Max<T>(a, b); }, std::make_index_sequence<kW>());
}

// Calls full(i) for full vectors and part(i, n) for the rest.
template <typename T, typename Full, typename Part>
ONEFLOW_INLINE void ForVectors(int64_t n, Full full, Part part) {
  int64_t i = 0;
  for (; i + kWidth<T> <= n; i += kWidth<T>) full(i);
  if (i < n) part(i, n - i);
}

// Σ term(load) over n elements in four interleaved vectors of partial sums. `term` maps a loader
// (index -> vector) and an index to the vector to add; it must map padding (zeros) to zeros.
template <typename T, typename Term>
ONEFLOW_INLINE T SumTerms(int64_t n, Term term) {
  Vec<T> s[4] = {};
  auto full = [](const auto* p, int64_t i) { return Load<T>(p + i); };
  int64_t i = 0;
  for (; i + 4 * kWidth<T> <= n; i += 4 * kWidth<T>) {
    for (int j = 0; j < 4; ++j) s[j] += term(full, i + j * kWidth<T>);
  }
  for (; i + kWidth<T> <= n; i += kWidth<T>) s[0] += term(full, i);
  if (i < n) {
    const int64_t rest = n - i;
    s[1] += term([rest](const auto* p, int64_t at) { return LoadPart<T>(p + at, rest); }, i);
  }
  return Sum<T>((s[0] + s[1]) + (s[2] + s[3]));
}

// p 2^n, where `shifted` is n + 1.5 * 2^23. Without an instruction for it 2^n is put into the
// exponent in two halves, so that results near overflow and denormals stay finite and exact.
ONEFLOW_INLINE Vec<float> Scale2(Vec<float> p, Vec<float> n, Vec<float> shifted) {
#if defined(__AVX512F__)
  (void)shifted;
  return (Vec<float>)_mm512_maskz_scalef_ps(kAll, (__m512)p, (__m512)n);
#else
  (void)n;
  typedef int32_t VecInt __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));
  const VecInt bits = (VecInt)shifted - 0x4B400000;  // n as an integer
  const VecInt half = bits >> 1;
  return p * (Vec<float>)((half + 127) << 23) * (Vec<float>)((bits - half + 127) << 23);
#endif
}

// e^x to about 1e-7 relative: x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial of degree 7 for
// e^r.
ONEFLOW_INLINE Vec<float> Exp(Vec<float> x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Vec<float> c =
      Max<float>(Broadcast<float>(-104.0f), Min<float>(Broadcast<float>(89.0f), x));
  const Vec<float> shifted = c * 1.44269504088896341f + kRound;
  const Vec<float> n = shifted - kRound;
  Vec<float> r = c - n * 0.693145751953125f;
  r = r - n * 1.42860682030941723e-6f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r + 1.0f) * r + 1.0f;
  return Scale2(p, n, shifted);
}

// 1 / (1 + e^x), to about 1e-7, without a division if there is a reciprocal table: one step of
// Newton's method.
ONEFLOW_INLINE Vec<float> Logistic(Vec<float> x) {
#if defined(__AVX512F__)
  // Capped, because infinity times its reciprocal, zero, would not be a number.
  const Vec<float> d = Exp(Min<float>(Broadcast<float>(80.0f), x)) + 1.0f;
  const Vec<float> y = (Vec<float>)_mm512_maskz_rcp14_ps(kAll, (__m512)d);
  return y + y * (1.0f - d * y);
#else
  return 1.0f / (Exp(x) + 1.0f);
#endif
}

// tanh, to about 2e-7 relative: by its series below 5/8 (Moshier's Cephes), where 1 - 2 / (1 +
// e^2x) would lose digits.
ONEFLOW_INLINE Vec<float> Tanh(Vec<float> x) {
  const Vec<float> z = x * x;
  Vec<float> p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Vec<float> near = x + x * z * p, far = 1.0f - Logistic(x * 2.0f) * 2.0f;
  return z < 0.625f * 0.625f ? near : far;
}

ONEFLOW_INLINE Vec<double> Exp(Vec<double> x) {
  for (int64_t i = 0; i < kWidth<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}
ONEFLOW_INLINE Vec<double> Logistic(Vec<double> x) { return 1.0 / (Exp(x) + 1.0); }
ONEFLOW_INLINE Vec<double> Tanh(Vec<double> x) {
  for (int64_t i = 0; i < kWidth<double>; ++i) x[i] = __builtin_tanh(x[i]);
  return x;
}
