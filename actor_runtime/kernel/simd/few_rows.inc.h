// The product of few rows, see product_kernels.h. Part of product_kernels.inc.h.
//
// It takes about the time of reading b, so b is read once, in place, and ahead. Columns that are
// side by side are read row after row, kStrip of them at a time, whose sums wait in the first-level
// cache. Rows of b that are contiguous along k are read a vector of them at a time: squares of
// words are transposed.

inline constexpr int64_t kStrip = 1024;  // columns
// Rows of a that share what is read of b.
inline constexpr int64_t kSharingRows = 4;

ONEFLOW_INLINE int64_t Lesser(int64_t a, int64_t b) { return a < b ? a : b; }

// The words of n <= kWidth columns that are side by side, of the elements at p and p + k_stride, of
// which `left` > 0 exist.
template <typename T>
ONEFLOW_INLINE Vec<WordType<T>> WordsAlong(const T* p, int64_t k_stride, int64_t left, int64_t n) {
  using W = WordType<T>;
  if (n < kWidth<W>) {
    W lanes[kWidth<W>] = {};
    for (int64_t i = 0; i < n; ++i) lanes[i] = OneWord<T>(p + i, k_stride, left);
    return Load<W>(lanes);
  }
  if constexpr (Packed<T>::kDepth == 1) {
    return Load<W>(p);
  } else {  // Load of a float widens bf16 into the upper half
    const VecBits even = (VecBits)Load<float>(p) >> 16;
    return left > 1 ? even | (VecBits)Load<float>(p + k_stride) : even;
  }
}

inline constexpr int kQuad = 4;
// Rows of b that are added to a sum before it is stored: as many as there are registers for their
// entries of a, in whole quads.
template <int Rows>
inline constexpr int kGroup = kQuad*((ONEFLOW_VECTOR_BYTES == 64 ? 4 : 2) / Rows > 0
                                         ? (ONEFLOW_VECTOR_BYTES == 64 ? 4 : 2) / Rows
                                         : 1);

// p. The compiler would keep one pointer for each of the rows that lie `stride` apart from it, more
// than there are registers, and the processor would see fewer reads at a time.
template <typename T>
ONEFLOW_INLINE const T* HideRows(const T* p) {
  asm("" : "+r"(p));
  return p;
}

// sums[i, j] continues its chain with `Group` rows of b, of which `left` exist, for i < Rows, j <
// columns.
template <typename T, int Rows, int Group>
ONEFLOW_INLINE void AddRows(const Strided<T>& a, const T* b, int64_t k_stride, int64_t columns,
                            int64_t left, SumType<T>* sums) {
  using W = WordType<T>;
  constexpr int kDepth = Packed<T>::kDepth, kStep = Group < kQuad ? Group : kQuad;
  Vec<W> av[Group / kDepth][Rows];
#pragma GCC unroll 16
  for (int w = 0; w < Group / kDepth; ++w) {
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const T* entry = a.data + i * a.row + w * kDepth * a.col;
      av[w][i] = Broadcast<W>(OneWord<T>(entry, a.col, left - w * kDepth));
    }
  }
  for (int64_t j = 0; j < columns; j += kWidth<W>) {
    const int64_t n = Lesser(kWidth<W>, columns - j);
    Vec<SumType<T>> sum[Rows];
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) sum[i] = Load<SumType<T>>(sums + i * kStrip + j);
    const T* rows = b + j;
#pragma GCC unroll 4
    for (int r = 0; r < Group; r += kStep, rows += kStep * k_stride) {
      rows = HideRows(rows);
      const T* next = HideRows(rows + Group * k_stride);
#pragma GCC unroll 4
      for (int d = 0; d < kStep; ++d) __builtin_prefetch(next + d * k_stride, 0, 2);
#pragma GCC unroll 4
      for (int d = 0; d < kStep; d += kDepth) {
        const Vec<W> bv = WordsAlong<T>(rows + d * k_stride, k_stride, left - r - d, n);
#pragma GCC unroll 4
        for (int i = 0; i < Rows; ++i) {
          sum[i] = MultiplyAdd<T>(sum[i], av[(r + d) / kDepth][i], bv);
        }
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) Store<SumType<T>>(sums + i * kStrip + j, sum[i]);
  }
}

// sums[i, j] of `columns` <= kStrip columns of b that are side by side.
template <typename T, int Rows>
void SumAlong(Strided<T> a, Strided<T> b, int64_t columns, int64_t k, SumType<T>* sums) {
  using Sum = SumType<T>;
  constexpr int kDepth = Packed<T>::kDepth;
  for (int i = 0; i < Rows; ++i) {
    for (int64_t j = 0; j < columns; j += kWidth<Sum>)
      Store<Sum>(sums + i * kStrip + j, Vec<Sum>{});
  }
  int64_t at = 0;
  for (; at + kGroup<Rows> <= k; at += kGroup<Rows>) {
    AddRows<T, Rows, kGroup<Rows>>(a.At(0, at), b.At(at, 0).data, b.row, columns, kGroup<Rows>,
                                   sums);
  }
  for (; at < k; at += kDepth) {
    AddRows<T, Rows, kDepth>(a.At(0, at), b.At(at, 0).data, b.row, columns, k - at, sums);
  }
}

// sums[i, j] of kWidth columns of b, or the first `columns`, each of them contiguous along k.
template <typename T, int Rows, bool Full>
ONEFLOW_INLINE void SumVectorAcross(Strided<T> a, Strided<T> b, int64_t columns, int64_t k,
                                    SumType<T>* sums) {
  using W = WordType<T>;
  constexpr int kDepth = Packed<T>::kDepth, kW = static_cast<int>(kWidth<W>);
  constexpr int kSide = kW < kQuad ? kW : kQuad;
  Vec<SumType<T>> sum[Rows] = {};
  int64_t at = 0;
  for (; at + kW * kDepth <= k; at += kW * kDepth) {
    Vec<W> v[kW];
    const T* lanes = b.data + at;
#pragma GCC unroll 4
    for (int l = 0; l < kW; l += kSide, lanes += kSide * b.col) {
      lanes = HideRows(lanes);
      const T* next = HideRows(lanes + kW * b.col);
#pragma GCC unroll 4
      for (int i = 0; i < kSide; ++i) {
        __builtin_prefetch(next + i * b.col, 0, 2);
        v[l + i] = Full || l + i < columns ? Words<T>(lanes + i * b.col) : Vec<W>{};
      }
    }
    SwapBlocks<W, 1, kW>(v, std::make_index_sequence<kW>());
#pragma GCC unroll 16
    for (int w = 0; w < kW; ++w) {
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) {
        const T* entry = a.data + i * a.row + (at + w * kDepth) * a.col;
        sum[i] = MultiplyAdd<T>(sum[i], Broadcast<W>(OneWord<T>(entry, a.col, kDepth)), v[w]);
      }
    }
  }
  for (; at < k; at += kDepth) {
    W lanes[kW] = {};
    for (int64_t l = 0; l < (Full ? kW : columns); ++l) {
      lanes[l] = OneWord<T>(b.data + l * b.col + at, 1, k - at);
    }
    for (int i = 0; i < Rows; ++i) {
      const T* entry = a.data + i * a.row + at * a.col;
      const W word = OneWord<T>(entry, a.col, k - at);
      sum[i] = MultiplyAdd<T>(sum[i], Broadcast<W>(word), Load<W>(lanes));
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) Store<SumType<T>>(sums + i * kStrip, sum[i]);
}

template <typename T, int Rows>
void SumAcross(Strided<T> a, Strided<T> b, int64_t columns, int64_t k, SumType<T>* sums) {
  int64_t j = 0;
  for (; j + kWidth<SumType<T>> <= columns; j += kWidth<SumType<T>>) {
    SumVectorAcross<T, Rows, true>(a, b.At(0, j), kWidth<SumType<T>>, k, sums + j);
  }
  if (j < columns) SumVectorAcross<T, Rows, false>(a, b.At(0, j), columns - j, k, sums + j);
}

// Rows <= kSharingRows of a product.
template <typename T, int Rows>
void MultiplySharing(Strided<T> a, Strided<T> b, int64_t row, int64_t columns, int64_t k,
                     const ProductTarget<SumType<T>>& to) {
  SumType<T> sums[Rows * kStrip];
  for (int64_t j = 0; j < columns; j += kStrip) {
    const int64_t n = Lesser(kStrip, columns - j);
    if (b.col == 1) {
      SumAlong<T, Rows>(a.At(row, 0), b.At(0, j), n, k, sums);
    } else {
      SumAcross<T, Rows>(a.At(row, 0), b.At(0, j), n, k, sums);
    }
    PutPartialTile<SumType<T>>(sums, kStrip, {row, j, Rows, n}, to);
  }
}

template <typename T>
void MultiplyFew(Strided<T> a, Strided<T> b, int64_t rows, int64_t columns, int64_t k,
                 const ProductTarget<SumType<T>>& to) {
  for (int64_t i = 0; i < rows; i += kSharingRows) {
    switch (Lesser(kSharingRows, rows - i)) {
      case 1: MultiplySharing<T, 1>(a, b, i, columns, k, to); break;
      case 2: MultiplySharing<T, 2>(a, b, i, columns, k, to); break;
      case 3: MultiplySharing<T, 3>(a, b, i, columns, k, to); break;
      default: MultiplySharing<T, 4>(a, b, i, columns, k, to);
    }
  }
}
