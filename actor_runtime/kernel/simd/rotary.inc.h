// Rotary position embeddings: sines and cosines, and the rotation of pairs. Part of
// vector_kernels.inc.h.

// As many floats as a vector has doubles.
typedef float Singles __attribute__((vector_size(ONEFLOW_VECTOR_BYTES / 2)));
typedef uint64_t VecWords __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));

struct SineCosine {
  Vec<double> sine, cosine;
};

// To about 1e-13 for angles up to 2^31, far more than f32 can show; sine(-x) is -sine(x) and
// cosine(-x) is cosine(x), bit for bit. The angle is n pi / 2 + r with |r| <= pi / 4, and the
// polynomials are Taylor's.
ONEFLOW_INLINE SineCosine SinCos(Vec<double> angle) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const Vec<double> shifted = angle * 0.63661977236758134308 + kRound;
  const Vec<double> n = shifted - kRound;
  // pi / 2 in two parts; n times the first, of 21 bits, is exact.
  Vec<double> r = angle - n * 0x1.921fbp+0;
  r = r - n * 0x1.5110b4611a626p-22;
  const Vec<double> r2 = r * r;
  Vec<double> s = r2 * (1.0 / 6227020800) - 1.0 / 39916800;
  s = s * r2 + 1.0 / 362880;
  s = s * r2 - 1.0 / 5040;
  s = s * r2 + 1.0 / 120;
  s = s * r2 - 1.0 / 6;
  s = s * r2 * r + r;
  Vec<double> c = r2 * (-1.0 / 87178291200) + 1.0 / 479001600;
  c = c * r2 - 1.0 / 3628800;
  c = c * r2 + 1.0 / 40320;
  c = c * r2 - 1.0 / 720;
  c = c * r2 + 1.0 / 24;
  c = c * r2 - 0.5;
  c = c * r2 + 1.0;
  // An odd n swaps the two; bit 1 of n and of n + 1 are their signs.
  const VecWords quadrant = (VecWords)shifted;
  const auto odd = (quadrant & 1) != 0;
  const Vec<double> sine = odd ? c : s, cosine = odd ? s : c;
  return {(Vec<double>)((VecWords)sine ^ (quadrant & 2) << 62),
          (Vec<double>)((VecWords)cosine ^ ((quadrant + 1) & 2) << 62)};
}

// Rounded to f32, also where T is double: the rotation is the same in every precision.
template <typename T>
ONEFLOW_INLINE void StoreSingles(Vec<double> v, float factor, T* to, int64_t n) {
  const Singles rounded = __builtin_convertvector(v, Singles) * factor;
  if constexpr (sizeof(T) == 8) {
    StorePart<T>(to, __builtin_convertvector(rounded, Vec<double>), n);
  } else {
    __builtin_memcpy(to, &rounded, n * sizeof(float));
  }
}

// The angle is the product in f32.
template <typename T>
void RotaryAngles(float position, float factor, const float* frequencies, T* cosines, T* sines,
                  int64_t n) {
  constexpr int64_t kStep = kWidth<double>;
  for (int64_t i = 0; i < n; i += kStep) {
    const int64_t count = n - i < kStep ? n - i : kStep;
    Singles f = {};
    __builtin_memcpy(&f, frequencies + i, count * sizeof(float));
    const Singles angle = f * position;
    const SineCosine turned = SinCos(__builtin_convertvector(angle, Vec<double>));
    StoreSingles<T>(turned.cosine, factor, cosines + i, count);
    StoreSingles<T>(turned.sine, factor, sines + i, count);
  }
}

template <typename T, typename S>
void Rotate(const S* x, const T* cosines, const T* sines, S* y, int64_t heads, int64_t d,
            int64_t half, int64_t n, bool accumulate) {
  for (int64_t head = 0; head < heads; ++head, x += d, y += d) {
    auto turn = [&](int64_t i, auto load, auto put) {
      const Vec<T> a = load(x + i), b = load(x + half + i);
      const Vec<T> c = load(cosines + i), s = load(sines + i);
      put(y + i, a * c - b * s);
      put(y + half + i, b * c + a * s);
    };
    ForVectors<T>(
        n,
        [&](int64_t i) {
          turn(
              i, [](const auto* p) { return Load<T>(p); },
              [&](S* p, Vec<T> v) { Store<T>(p, accumulate ? Load<T>(p) + v : v); });
        },
        [&](int64_t i, int64_t m) {
          turn(
              i, [m](const auto* p) { return LoadPart<T>(p, m); },
              [&](S* p, Vec<T> v) { StorePart<T>(p, accumulate ? LoadPart<T>(p, m) + v : v, m); });
        });
  }
}
