// Loops over rows: norms, sums over rows, softmax. Part of vector_kernels.inc.h.

template <typename T, typename S>
T Dot(const S* a, const T* b, int64_t n) {
  return SumTerms<T>(n, [&](auto load, int64_t i) { return load(a, i) * load(b, i); });
}

// For rows stored as X: the residual stream, T or S.
template <typename T, typename X, typename S>
void LayerNorm(const X* x, const T* gamma, const T* beta, T epsilon, S* y, T* mean, T* rstd,
               int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    const T mu = SumTerms<T>(width, [&](auto load, int64_t i) { return load(x, i); }) / T(width);
    // Two passes: the row is in cache, and E[x^2] - mean^2 would lose digits. Padding would add
    // mean^2, so the rest of the row is summed separately.
    const int64_t full_width = width - width % kWidth<T>;
    T squares = SumTerms<T>(full_width, [&](auto load, int64_t i) {
      const Vec<T> d = load(x, i) - mu;
      return d * d;
    });
    for (int64_t i = full_width; i < width; ++i) {
      const T d = LoadPart<T>(x + i, 1)[0] - mu;
      squares += d * d;
    }
    const T r = T(1) / Root(squares / T(width) + epsilon);
    mean[row] = mu;
    rstd[row] = r;
    auto norm = [mu, r](Vec<T> v) { return (v - mu) * r; };
    if (beta == nullptr) {
      Map<T>(
          width, y, false, [&](Vec<T> v, Vec<T> g) { return norm(v) * g; }, x, gamma);
    } else {
      Map<T>(
          width, y, false, [&](Vec<T> v, Vec<T> g, Vec<T> b) { return norm(v) * g + b; }, x, gamma,
          beta);
    }
  }
}

template <typename T, typename X, typename S>
void LayerNormGradInput(const S* dy, const X* x, const T* gamma, const T* mean, const T* rstd,
                        X* dx, int64_t rows, int64_t width, bool accumulate) {
  for (int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const T mu = mean[row], r = rstd[row];
    // With z = (x - mean) rstd and u = dy gamma: dx = rstd (u - mean(u) - z mean(u z)).
    const T sum_u = Dot<T>(dy, gamma, width);
    const T sum_ux = SumTerms<T>(width, [&](auto load, int64_t i) {
      return load(dy, i) * load(gamma, i) * (load(x, i) - mu);
    });
    const T mean_u = sum_u / T(width), mean_uz = sum_ux * r / T(width);
    Map<T>(
        width, dx, accumulate,
        [&](Vec<T> d, Vec<T> g, Vec<T> v) { return (d * g - mean_u - (v - mu) * r * mean_uz) * r; },
        dy, gamma, x);
  }
}

template <typename T, typename S>
T RowSquareSum(const S* x, int64_t n) {
  return SumTerms<T>(n, [&](auto load, int64_t i) {
    const Vec<T> v = load(x, i);
    return v * v;
  });
}

template <typename T, typename S>
void RowScale(const S* x, T r, const T* gamma, S* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [r](Vec<T> v, Vec<T> g) { return v * r * g; }, x, gamma);
}

template <typename T, typename S>
T RowDot(const S* dy, const S* x, const T* gamma, int64_t n) {
  return SumTerms<T>(
      n, [&](auto load, int64_t i) { return load(dy, i) * load(gamma, i) * load(x, i); });
}

template <typename T, typename X, typename S>
void RmsNorm(const X* x, const T* gamma, T offset, T epsilon, S* y, T* rstd, int64_t rows,
             int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    const T squares = RowSquareSum<T>(x, width);
    const T r = T(1) / Root(squares / T(width) + epsilon);
    rstd[row] = r;
    Map<T>(
        width, y, false, [=](Vec<T> v, Vec<T> g) { return v * r * (g + offset); }, x, gamma);
  }
}

template <typename T, typename X, typename S>
void RmsNormGradInput(const S* dy, const X* x, const T* gamma, T offset, const T* rstd, X* dx,
                      int64_t rows, int64_t width, bool accumulate) {
  for (int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const T r = rstd[row];
    // With z = x rstd and u = dy (gamma + offset): dx = rstd (u - z mean(u z)). Padding of dy is 0.
    const T sum_ux = SumTerms<T>(width, [&](auto load, int64_t i) {
      return load(dy, i) * (load(gamma, i) + offset) * load(x, i);
    });
    const T mean_uz = sum_ux * r / T(width);
    Map<T>(
        width, dx, accumulate,
        [&](Vec<T> d, Vec<T> g, Vec<T> v) { return (d * (g + offset) - v * r * mean_uz) * r; }, dy,
        gamma, x);
  }
}

// Rows that are summed before they join the total: keeps the error of long sums down.
inline constexpr int64_t kRowBlock = 64;

// y[c] (+)= Σ over rows of term(load, row, c), for c < n: `load` is as in SumTerms. Several vectors
// of a row are computed together, so that distant rows are visited once.
template <typename T, typename Term>
ONEFLOW_INLINE void SumRows(int64_t rows, int64_t n, T* y, bool accumulate, Term term) {
  constexpr int kStrip = 4;
  auto full = [](const auto* p, int64_t i) { return Load<T>(p + i); };
  int64_t c = 0;
  for (; c + kStrip * kWidth<T> <= n; c += kStrip * kWidth<T>) {
    Vec<T> total[kStrip] = {};
    for (int64_t first = 0; first < rows; first += kRowBlock) {
      const int64_t last = first + kRowBlock < rows ? first + kRowBlock : rows;
      Vec<T> block[kStrip] = {};
      for (int64_t row = first; row < last; ++row) {
#pragma GCC unroll 4
        for (int j = 0; j < kStrip; ++j) block[j] += term(full, row, c + j * kWidth<T>);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kStrip; ++j) total[j] += block[j];
    }
    for (int j = 0; j < kStrip; ++j) {
      T* at = y + c + j * kWidth<T>;
      Store<T>(at, accumulate ? Load<T>(at) + total[j] : total[j]);
    }
  }
  for (; c < n; c += kWidth<T>) {
    const int64_t rest = n - c < kWidth<T> ? n - c : kWidth<T>;
    auto part = [rest](const auto* p, int64_t at) { return LoadPart<T>(p + at, rest); };
    Vec<T> total = {};
    for (int64_t first = 0; first < rows; first += kRowBlock) {
      const int64_t last = first + kRowBlock < rows ? first + kRowBlock : rows;
      Vec<T> block = {};
      for (int64_t row = first; row < last; ++row) block += term(part, row, c);
      total += block;
    }
    StorePart<T>(y + c, accumulate ? LoadPart<T>(y + c, rest) + total : total, rest);
  }
}

template <typename T, typename S>
void ColumnSums(const S* x, T* y, int64_t rows, int64_t width, int64_t begin, int64_t end,
                bool accumulate) {
  SumRows<T>(rows, end - begin, y + begin, accumulate,
             [&](auto load, int64_t row, int64_t c) { return load(x + row * width + begin, c); });
}

template <typename T, typename X, typename S>
void LayerNormGradWeight(const S* dy, const X* x, const T* mean, const T* rstd, T* dgamma, T* dbeta,
                         int64_t rows, int64_t width, int64_t begin, int64_t end, bool accumulate) {
  SumRows<T>(rows, end - begin, dgamma + begin, accumulate, [&](auto load, int64_t row, int64_t c) {
    const int64_t at = row * width + begin;
    return load(dy + at, c) * ((load(x + at, c) - mean[row]) * rstd[row]);
  });
  if (dbeta != nullptr) ColumnSums<T>(dy, dbeta, rows, width, begin, end, accumulate);
}

template <typename T, typename X, typename S>
void RmsNormGradWeight(const S* dy, const X* x, const T* rstd, T* dgamma, int64_t rows,
                       int64_t width, int64_t begin, int64_t end, bool accumulate) {
  SumRows<T>(rows, end - begin, dgamma + begin, accumulate, [&](auto load, int64_t row, int64_t c) {
    const int64_t at = row * width + begin;
    return load(dy + at, c) * (load(x + at, c) * rstd[row]);
  });
}

template <typename T, typename S>
T RowMax(const S* x, int64_t n) {
  const T lowest = T(-__builtin_inf());
  Vec<T> m0 = Broadcast<T>(lowest), m1 = m0;
  int64_t i = 0;
  for (; i + 2 * kWidth<T> <= n; i += 2 * kWidth<T>) {
    m0 = Max<T>(m0, Load<T>(x + i));
    m1 = Max<T>(m1, Load<T>(x + i + kWidth<T>));
  }
  for (; i < n; i += kWidth<T>) {
    m0 = Max<T>(m0, i + kWidth<T> <= n ? Load<T>(x + i) : LoadPart<T>(x + i, n - i, lowest));
  }
  return MaxLane<T>(Max<T>(m0, m1));
}

template <typename T, typename S>
T RowSumExp(const S* x, T max, int64_t n) {
  const T lowest = T(-__builtin_inf());
  Vec<T> s0 = {}, s1 = {};
  int64_t i = 0;
  for (; i + 2 * kWidth<T> <= n; i += 2 * kWidth<T>) {
    s0 += Exp(Load<T>(x + i) - max);
    s1 += Exp(Load<T>(x + i + kWidth<T>) - max);
  }
  for (; i < n; i += kWidth<T>) {
    s0 += Exp((i + kWidth<T> <= n ? Load<T>(x + i) : LoadPart<T>(x + i, n - i, lowest)) - max);
  }
  return Sum<T>(s0 + s1);
}

template <typename T, typename S>
void RowExp(const S* x, T max, T factor, S* y, int64_t n, bool accumulate) {
  Map<T>(
      n, y, accumulate, [&](Vec<T> v) { return Exp(v - max) * factor; }, x);
}

template <typename T>
T SoftmaxRow(T* s, T scale, int64_t n, T* max) {
  const T top = RowMax<T>(s, n);
  *max = top;
  const T* old = s;
  Map<T>(
      n, s, false, [&](Vec<T> v) { return Exp((v - top) * scale); }, old);
  return SumTerms<T>(n, [&](auto load, int64_t i) { return load(s, i); });
}

template <typename T, typename S>
void SoftmaxGradRow(const S* dy, const S* y, T scale, S* dx, int64_t n, bool accumulate) {
  const T dot = SumTerms<T>(n, [&](auto load, int64_t i) { return load(dy, i) * load(y, i); });
  Map<T>(
      n, dx, accumulate, [&](Vec<T> d, Vec<T> p) { return (d - dot) * p * scale; }, dy, y);
}
