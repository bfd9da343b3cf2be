// Matrix product of packed panels. Part of vector_kernels.inc.h.
//
// The register tile is kTileRows x kTileColumns; the sum over k of each element is one chain of
// multiply-adds in the order of k, wherever the element lies in a tile: its bits do not depend on tiling.

inline constexpr int kTileRows = ONEFLOW_TILE_ROWS;
template <typename T>
inline constexpr int kTileColumns = ONEFLOW_TILE_VECTORS * static_cast<int>(kWidth<T>);

// Packs `lanes` vectors of length k that lie `lane_stride` apart, elements `k_stride` apart, into panels of
// Lanes: packed[k][lane], zeros for missing lanes.
template <typename T, int Lanes>
ONEFLOW_INLINE void PackPanel(const T* from, int64_t lane_stride, int64_t k_stride, int64_t lanes,
                              int64_t k, T* to) {
  if (lanes == Lanes && lane_stride == 1) {
    for (int64_t i = 0; i < k; ++i) __builtin_memcpy(to + i * Lanes, from + i * k_stride, Lanes * sizeof(T));
    return;
  }
  if (lanes == Lanes) {
    for (int64_t i = 0; i < k; ++i) {
      for (int j = 0; j < Lanes; ++j) to[i * Lanes + j] = from[j * lane_stride + i * k_stride];
    }
    return;
  }
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < lanes; ++j) to[i * Lanes + j] = from[j * lane_stride + i * k_stride];
    for (int64_t j = lanes; j < Lanes; ++j) to[i * Lanes + j] = 0;
  }
}

template <typename T>
void PackA(Strided<T> a, int64_t rows, int64_t k, T* packed) {
  for (int64_t r = 0; r < rows; r += kTileRows, packed += kTileRows * k) {
    const int64_t lanes = rows - r < kTileRows ? rows - r : kTileRows;
    PackPanel<T, kTileRows>(a.data + r * a.row, a.row, a.col, lanes, k, packed);
  }
}

template <typename T>
void PackB(Strided<T> b, int64_t k, int64_t columns, T* packed) {
  constexpr int kLanes = kTileColumns<T>;
  for (int64_t c = 0; c < columns; c += kLanes, packed += kLanes * k) {
    const int64_t lanes = columns - c < kLanes ? columns - c : kLanes;
    PackPanel<T, kLanes>(b.data + c * b.col, b.col, b.row, lanes, k, packed);
  }
}

template <typename T>
ONEFLOW_INLINE void MultiplyTile(const T* a, const T* b, int64_t k, T* c, int64_t c_row, int64_t rows,
                                 int64_t columns, bool accumulate) {
  constexpr int kVectors = ONEFLOW_TILE_VECTORS;
  Vec<T> sum[kTileRows][kVectors] = {};
  for (int64_t p = 0; p < k; ++p, a += kTileRows, b += kTileColumns<T>) {
    Vec<T> bv[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) bv[j] = Load<T>(b + j * kWidth<T>);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      const Vec<T> av = Broadcast<T>(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] += av * bv[j];
    }
  }
  if (rows == kTileRows && columns == kTileColumns<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        T* at = c + i * c_row + j * kWidth<T>;
        Store<T>(at, accumulate ? Load<T>(at) + sum[i][j] : sum[i][j]);
      }
    }
    return;
  }
  T lanes[kTileRows][kTileColumns<T>];
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) Store<T>(&lanes[i][j * kWidth<T>], sum[i][j]);
  }
  for (int64_t i = 0; i < rows; ++i) {
    T* at = c + i * c_row;
    for (int64_t j = 0; j < columns; ++j) at[j] = accumulate ? at[j] + lanes[i][j] : lanes[i][j];
  }
}

// One panel of b (it stays in the first-level cache) against all panels of a (second level).
template <typename T>
void Multiply(const T* a, const T* b, int64_t rows, int64_t columns, int64_t k, T* c, int64_t c_row,
              bool accumulate) {
  for (int64_t j = 0; j < columns; j += kTileColumns<T>) {
    const int64_t n = columns - j < kTileColumns<T> ? columns - j : kTileColumns<T>;
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const int64_t m = rows - i < kTileRows ? rows - i : kTileRows;
      MultiplyTile<T>(a + i * k, b + j * k, k, c + i * c_row + j, c_row, m, n, accumulate);
    }
  }
}
