// Small matrices in panels, and products of them, as attention needs them. Part of
// attention_kernels.inc.h.
//
// A panel matrix m[rows, columns] is split into panels of kLanes columns; each panel stores row
// after row, kLanes elements a row, the last one padded with zeros. Every distance inside a panel
// is a constant, so a product needs one pointer an operand, and no operand is packed twice. Panels
// hold T, the type of computation; S is the type in which tensors are stored.

template <typename T>
inline constexpr int64_t kLanes = 2 * kWidth<T>;

// Rows of a product's register tile; divides kLanes.
inline constexpr int64_t kPanelRows = ONEFLOW_VECTOR_BYTES == 64 ? 8 : 4;

ONEFLOW_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
ONEFLOW_INLINE int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// to[r, c] = from[r * stride + c] * scale, into a panel matrix of `panel_rows` rows. The last tile
// of rows is padded with zeros, too.
template <typename T, typename S>
void ToPanels(const S* from, int64_t stride, int64_t rows, int64_t columns, T scale, T* to,
              int64_t panel_rows) {
  const int64_t full_tiles = RoundUp(rows, kPanelRows);
  for (int64_t c = 0; c < columns; c += kLanes<T>, to += panel_rows * kLanes<T>) {
    const int64_t n = Least(kLanes<T>, columns - c);
    for (int64_t r = 0; r < full_tiles; ++r) {
      const S* row = from + r * stride + c;
      for (int64_t i = 0; i < kLanes<T>; i += kWidth<T>) {
        Vec<T> v = {};
        if (r < rows && n - i >= kWidth<T>) {
          v = Load<T>(row + i);
        } else if (r < rows && n > i) {
          v = LoadPart<T>(row + i, n - i);
        }
        Store<T>(to + r * kLanes<T> + i, v * scale);
      }
    }
  }
}

// The inverse: to[r * stride + c] (+)= from[r, c] * scale.
template <typename T, typename S>
void FromPanels(const T* from, int64_t panel_rows, int64_t rows, int64_t columns, T scale, S* to,
                int64_t stride, bool accumulate) {
  for (int64_t c = 0; c < columns; c += kLanes<T>, from += panel_rows * kLanes<T>) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = from + r * kLanes<T>;
      S* y = to + r * stride + c;
      ForVectors<T>(
          Least(kLanes<T>, columns - c),
          [&](int64_t i) {
            const Vec<T> v = Load<T>(row + i) * scale;
            Store<T>(y + i, accumulate ? Load<T>(y + i) + v : v);
          },
          [&](int64_t i, int64_t n) {
            const Vec<T> v = Load<T>(row + i) * scale;
            StorePart<T>(y + i, accumulate ? LoadPart<T>(y + i, n) + v : v, n);
          });
    }
  }
}

// The transpose of the panel matrix from[rows, columns], as a panel matrix [columns, rows].
template <typename T>
void TransposePanels(const T* from, int64_t panel_rows, int64_t rows, int64_t columns, T* to) {
  for (int64_t c = 0; c < columns; c += kLanes<T>, from += panel_rows * kLanes<T>) {
    for (int64_t r = 0; r < rows; r += kLanes<T>) {
      PackAcross<T, static_cast<int>(kLanes<T>)>(
          from + r * kLanes<T>, kLanes<T>, Least(kLanes<T>, rows - r),
          Least(kLanes<T>, columns - c), to + r * columns + c * kLanes<T>);
    }
  }
}

// Operand a of a product, kPanelRows x depth: rows of a panel matrix, or rows of its transpose.
template <typename T>
struct PanelRows {  // a(i, k) = m[i, k]; `at` is m[i = 0, k = 0]
  const T* at;
  int64_t panel;  // elements of a panel of m
  ONEFLOW_INLINE const T* Part(int64_t k) const { return at + k / kLanes<T> * panel; }
  static ONEFLOW_INLINE int64_t Offset(int64_t i, int64_t k) { return i * kLanes<T> + k; }
};
template <typename T>
struct PanelColumns {  // a(i, k) = m[k, i], within one panel; `at` is m[k = 0, i = 0]
  const T* at;
  ONEFLOW_INLINE const T* Part(int64_t k) const { return at + k * kLanes<T>; }
  static ONEFLOW_INLINE int64_t Offset(int64_t i, int64_t k) { return k * kLanes<T> + i; }
};

// The tile sums of kPanelRows rows and kVectors vectors: from `sum`, one chain of multiply-adds in
// the order of k < depth, a(i, k) * b[k, lanes], where b is one panel.
template <typename T, int kVectors, typename A>
ONEFLOW_INLINE void MultiplyPanel(A a, const T* b, int64_t depth,
                                  Vec<T> (&sum)[kPanelRows][kVectors]) {
  for (int64_t begin = 0; begin < depth; begin += kLanes<T>) {
    const T* part = a.Part(begin);
    const int64_t n = Least(kLanes<T>, depth - begin);
    for (int64_t k = 0; k < n; ++k, b += kLanes<T>) {
      Vec<T> right[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) right[j] = Load<T>(b + j * kWidth<T>);
#pragma GCC unroll 8
      for (int i = 0; i < kPanelRows; ++i) {
        const Vec<T> left = Broadcast<T>(part[A::Offset(i, k)]);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] += left * right[j];
      }
    }
  }
}

// c += a b for a tile of kPanelRows rows of c, one panel wide; c is part of a panel matrix.
template <typename T, typename A>
ONEFLOW_INLINE void AddTileProduct(A a, const T* b, int64_t depth, T* c) {
  Vec<T> sum[kPanelRows][2];
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
    sum[i][0] = Load<T>(c + i * kLanes<T>);
    sum[i][1] = Load<T>(c + i * kLanes<T> + kWidth<T>);
  }
  MultiplyPanel<T, 2>(a, b, depth, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
    Store<T>(c + i * kLanes<T>, sum[i][0]);
    Store<T>(c + i * kLanes<T> + kWidth<T>, sum[i][1]);
  }
}
