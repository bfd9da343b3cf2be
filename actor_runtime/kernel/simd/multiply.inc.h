// The product of packed blocks, see product_kernels.h. Part of product_kernels.inc.h.
//
// The register tile is kTileRows x kTileVectors vectors; at the right edge it is as many vectors
// wide as are needed.

inline constexpr int kTileRows = ONEFLOW_TILE_ROWS, kTileVectors = ONEFLOW_TILE_VECTORS;
template <typename T>
inline constexpr int kTileColumns = kTileVectors* static_cast<int>(kWidth<WordOf<T>>);

// sum + a b, a broadcast word times a vector of words.
template <typename T>
ONEFLOW_INLINE Vec<SumOf<T>> MultiplyAdd(Vec<SumOf<T>> sum, Vec<WordOf<T>> a, Vec<WordOf<T>> b) {
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

// One vector of a row of results, of which `n` lanes are there.
template <typename Sum>
ONEFLOW_INLINE void Put(const ProductTarget<Sum>& to, int64_t row, int64_t column, int64_t n,
                        Vec<Sum> sum) {
  const bool whole = n >= kWidth<Sum>;
  Sum* at = to.sums + row * to.sums_row + column;
  if (to.add) sum = (whole ? Load<Sum>(at) : LoadPart<Sum>(at, n)) + sum;
  if (to.bias != nullptr) {
    sum += whole ? Load<Sum>(to.bias + column) : LoadPart<Sum>(to.bias + column, n);
  }
  if constexpr (std::is_same_v<Sum, float>) {
    if (to.rounded != nullptr) {
      Bf16* rounded = to.rounded + row * to.rounded_row + column;
      return whole ? Store<float>(rounded, sum) : StorePart<float>(rounded, sum, n);
    }
  }
  whole ? Store<Sum>(at, sum) : StorePart<Sum>(at, sum, n);
}

// The tile of `Vectors` at (row, column) of the block: `rows` and `columns` of it are there.
template <typename T, int Vectors>
ONEFLOW_INLINE void MultiplyTile(const WordOf<T>* a, const WordOf<T>* b, int64_t words,
                                 const ProductTarget<SumOf<T>>& to, int64_t row, int64_t column,
                                 int64_t rows, int64_t columns) {
  using W = WordOf<T>;
  Vec<SumOf<T>> sum[kTileRows][Vectors] = {};
  for (int64_t p = 0; p < words; ++p, a += kTileRows, b += kTileColumns<T>) {
    Vec<W> right[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) right[j] = Load<W>(b + j * kWidth<W>);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      const Vec<W> left = Broadcast<W>(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] = MultiplyAdd<T>(sum[i][j], left, right[j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
    if (i >= rows) return;
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      Put(to, row + i, column + j * kWidth<W>, columns - j * kWidth<W>, sum[i][j]);
    }
  }
}

// The same, no wider than `columns` need.
template <typename T, int Vectors>
void MultiplyEdge(const WordOf<T>* a, const WordOf<T>* b, int64_t words,
                  const ProductTarget<SumOf<T>>& to, int64_t row, int64_t column, int64_t rows,
                  int64_t columns) {
  if constexpr (Vectors > 1) {
    if (columns <= (Vectors - 1) * kWidth<WordOf<T>>) {
      return MultiplyEdge<T, Vectors - 1>(a, b, words, to, row, column, rows, columns);
    }
  }
  MultiplyTile<T, Vectors>(a, b, words, to, row, column, rows, columns);
}

// One panel of a stays in the first-level cache; the panels of b come from the second.
template <typename T>
void Multiply(const std::byte* a, const std::byte* b, int64_t rows, int64_t columns, int64_t words,
              const ProductTarget<SumOf<T>>& to) {
  const auto* left = reinterpret_cast<const WordOf<T>*>(a);
  const auto* right = reinterpret_cast<const WordOf<T>*>(b);
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int64_t m = rows - i < kTileRows ? rows - i : kTileRows;
    for (int64_t j = 0; j < columns; j += kTileColumns<T>) {
      MultiplyEdge<T, kTileVectors>(left + i * words, right + j * words, words, to, i, j, m,
                                    columns - j);
    }
  }
}
