// The product of packed blocks, see product_kernels.h. Part of product_kernels.inc.h.
//
// The register tile is kTileRows x kTileVectors vectors; at the right edge it is as many vectors
// wide as are needed.

inline constexpr int kTileRows = ONEFLOW_TILE_ROWS, kTileVectors = ONEFLOW_TILE_VECTORS;
template <typename T>
inline constexpr int kTileColumns = kTileVectors* static_cast<int>(kWidth<WordType<T>>);

// sum + a b, a broadcast word times a vector of words.
template <typename T>
ONEFLOW_INLINE Vec<SumType<T>> MultiplyAdd(Vec<SumType<T>> sum, Vec<WordType<T>> a,
                                           Vec<WordType<T>> b) {
  if constexpr (!std::is_same_v<T, Bf16>) {
    return sum + a * b;
  } else {
#if defined(__AVX512BF16__)
    return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    constexpr uint32_t kUpper = 0xffff0000;
    sum += (Vec<float>)(a << 16) * (Vec<float>)(b << 16);
    return sum + (Vec<float>)(a & kUpper) * (Vec<float>)(b & kUpper);
#endif
  }
}

// The position of a tile in the block, and its size within the block.
struct TilePosition {
  int64_t row, column, rows, columns;
};

// Calls fn(i, j) for each vector of a tile, fully unrolled, so that indexed vectors stay in
// registers.
template <int Vectors, typename Fn>
ONEFLOW_INLINE void ForTile(Fn fn) {
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) fn(i, j);
  }
}

// Stores a full tile. Each step is a separate loop, because branches inside would spill the sums.
template <typename Sum, int Vectors>
ONEFLOW_INLINE void PutFullTile(Vec<Sum> (&sum)[kTileRows][Vectors], const TilePosition& at,
                                const ProductTarget<Sum>& to) {
  constexpr int64_t kW = kWidth<Sum>;
  Sum* sums = to.sums + at.row * to.sums_row + at.column;
  if (to.add) {
    ForTile<Vectors>(
        [&](int i, int j) { sum[i][j] = Load<Sum>(sums + i * to.sums_row + j * kW) + sum[i][j]; });
  }
  if (to.bias != nullptr) {
    ForTile<Vectors>([&](int i, int j) { sum[i][j] += Load<Sum>(to.bias + at.column + j * kW); });
  }
  if constexpr (std::is_same_v<Sum, float>) {
    if (to.rounded != nullptr) {
      Bf16* rounded = to.rounded + at.row * to.rounded_row + at.column;
      return ForTile<Vectors>(
          [&](int i, int j) { Store<Sum>(rounded + i * to.rounded_row + j * kW, sum[i][j]); });
    }
  }
  ForTile<Vectors>([&](int i, int j) { Store<Sum>(sums + i * to.sums_row + j * kW, sum[i][j]); });
}

// The first n <= width elements.
template <typename Sum>
ONEFLOW_INLINE Vec<Sum> LoadUpTo(const Sum* p, int64_t n) {
  return n == kWidth<Sum> ? Load<Sum>(p) : LoadPart<Sum>(p, n);
}
template <typename Sum, typename S>
ONEFLOW_INLINE void StoreUpTo(S* p, Vec<Sum> v, int64_t n) {
  n == kWidth<Sum> ? Store<Sum>(p, v) : StorePart<Sum>(p, v, n);
}

// Stores the part of a tile that is in the block; `sum` is the full tile, rows of `width`.
template <typename Sum>
__attribute__((noinline)) void PutPartialTile(const Sum* sum, int64_t width, const TilePosition& at,
                                              const ProductTarget<Sum>& to) {
  const int64_t columns = at.columns < width ? at.columns : width;
  for (int64_t i = 0; i < at.rows; ++i, sum += width) {
    Sum* sums = to.sums + (at.row + i) * to.sums_row + at.column;
    for (int64_t j = 0; j < columns; j += kWidth<Sum>) {
      const int64_t n = columns - j < kWidth<Sum> ? columns - j : kWidth<Sum>;
      Vec<Sum> v = Load<Sum>(sum + j);
      if (to.add) v = LoadUpTo<Sum>(sums + j, n) + v;
      if (to.bias != nullptr) v += LoadUpTo<Sum>(to.bias + at.column + j, n);
      if constexpr (std::is_same_v<Sum, float>) {
        if (to.rounded != nullptr) {
          StoreUpTo<Sum>(to.rounded + (at.row + i) * to.rounded_row + at.column + j, v, n);
          continue;
        }
      }
      StoreUpTo<Sum>(sums + j, v, n);
    }
  }
}

// Prefetches the cache lines to which the full tile will be stored.
template <typename Sum, int Vectors>
ONEFLOW_INLINE void PrefetchTarget(const TilePosition& at, const ProductTarget<Sum>& to) {
  if (to.rounded != nullptr) return;
  const Sum* sums = to.sums + at.row * to.sums_row + at.column;
  ForTile<Vectors>(
      [&](int i, int j) { __builtin_prefetch(sums + i * to.sums_row + j * kWidth<Sum>, 1); });
}

// A tile of `Vectors`. InRows: the lanes of a are rows of words, a.lane apart; else words are rows
// of lanes, a.word apart.
template <typename T, int Vectors, bool InRows>
void MultiplyTile(const Panels& left, const Panels& right, int64_t words,
                  const TilePosition& position, const ProductTarget<SumType<T>>& to) {
  using W = WordType<T>;
  const W* a = reinterpret_cast<const W*>(left.data) + position.row / kTileRows * left.panel;
  const W* b =
      reinterpret_cast<const W*>(right.data) + position.column / kTileColumns<T> * right.panel;
  const int64_t a_lane = InRows ? left.lane : 1, a_word = InRows ? 1 : left.word;
  // Prefetches the next panel of a while this one is used. (Its rows are mostly contiguous.)
  const W* next = a + left.panel;
  const int64_t next_word = InRows ? kTileRows : a_word;
  PrefetchTarget<SumType<T>, Vectors>(position, to);
  Vec<SumType<T>> sum[kTileRows][Vectors] = {};
  for (int64_t p = 0; p < words; ++p, a += a_word, b += right.word, next += next_word) {
    __builtin_prefetch(next, 0, 2);
    Vec<W> bv[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) bv[j] = Load<W>(b + j * kWidth<W>);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      const Vec<W> av = Broadcast<W>(a[i * a_lane]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] = MultiplyAdd<T>(sum[i][j], av, bv[j]);
    }
  }
  if (position.rows >= kTileRows && position.columns >= Vectors * kWidth<W>) {
    return PutFullTile<SumType<T>, Vectors>(sum, position, to);
  }
  SumType<T> lanes[kTileRows * Vectors * kWidth<W>];
  ForTile<Vectors>(
      [&](int i, int j) { Store<SumType<T>>(lanes + (i * Vectors + j) * kWidth<W>, sum[i][j]); });
  PutPartialTile(lanes, Vectors * kWidth<W>, position, to);
}

// A tile no wider than its columns need.
template <typename T, int Vectors, bool InRows>
ONEFLOW_INLINE void MultiplyNarrow(const Panels& a, const Panels& b, int64_t words,
                                   const TilePosition& position,
                                   const ProductTarget<SumType<T>>& to) {
  if constexpr (Vectors > 1) {
    if (position.columns <= (Vectors - 1) * kWidth<WordType<T>>) {
      return MultiplyNarrow<T, Vectors - 1, InRows>(a, b, words, position, to);
    }
  }
  MultiplyTile<T, Vectors, InRows>(a, b, words, position, to);
}

template <typename T, bool InRows>
ONEFLOW_INLINE void MultiplyTiles(const Panels& a, const Panels& b, int64_t rows, int64_t columns,
                                  int64_t words, const ProductTarget<SumType<T>>& to) {
  // One panel of a stays in the first-level cache; the panels of b come from the second.
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int64_t m = rows - i < kTileRows ? rows - i : kTileRows;
    for (int64_t j = 0; j < columns; j += kTileColumns<T>) {
      MultiplyNarrow<T, kTileVectors, InRows>(a, b, words, {i, j, m, columns - j}, to);
    }
  }
}

template <typename T>
void Multiply(const Panels& a, const Panels& b, int64_t rows, int64_t columns, int64_t words,
              const ProductTarget<SumType<T>>& to) {
  if (a.lane == 1) {
    MultiplyTiles<T, false>(a, b, rows, columns, words, to);
  } else {
    MultiplyTiles<T, true>(a, b, rows, columns, words, to);
  }
}
