// Matrix product of packed panels. Part of vector_kernels.inc.h.
//
// The register tile is kTileRows x kTileColumns; the sum over k of each element is one chain of
// multiply-adds in the order of k, wherever the element lies in a tile: its bits do not depend on
// tiling.

inline constexpr int kTileRows = ONEFLOW_TILE_ROWS;
template <typename T>
inline constexpr int kTileColumns = ONEFLOW_TILE_VECTORS* static_cast<int>(kWidth<T>);

// Swaps the off-diagonal S x S blocks of every 2S x 2S block: one step of a transpose.
template <typename T, int S, size_t... J>
ONEFLOW_INLINE void SwapBlocks(Vec<T>* v, std::index_sequence<J...>) {
  constexpr int kW = static_cast<int>(kWidth<T>);
#pragma GCC unroll 16
  for (int i = 0; i < kW; ++i) {
    if ((i & S) != 0) continue;
    const Vec<T> a = v[i], b = v[i + S];
    v[i] = __builtin_shufflevector(a, b, ((J & S) ? kW + int(J) - S : int(J))...);
    v[i + S] = __builtin_shufflevector(a, b, ((J & S) ? kW + int(J) : int(J) + S)...);
  }
  if constexpr (2 * S < kW) SwapBlocks<T, 2 * S>(v, std::index_sequence<J...>());
}

// to[k][lane] = from[lane * lane_stride + k]: lanes that are contiguous along k, a square of
// vectors at a time. Missing lanes become zeros.
template <typename T, int Lanes>
ONEFLOW_INLINE void PackAcross(const T* from, int64_t lane_stride, int64_t lanes, int64_t k,
                               T* to) {
  constexpr int kW = static_cast<int>(kWidth<T>);
  int64_t done = 0;
  for (; done + kW <= k; done += kW) {
    for (int group = 0; group < Lanes; group += kW) {
      Vec<T> v[kW];
#pragma GCC unroll 16
      for (int i = 0; i < kW; ++i) {
        const int64_t lane = group + i;
        v[i] = lane < lanes ? Load<T>(from + lane * lane_stride + done) : Vec<T>{};
      }
      SwapBlocks<T, 1>(v, std::make_index_sequence<kW>());
#pragma GCC unroll 16
      for (int i = 0; i < kW; ++i) {
        T* at = to + (done + i) * Lanes + group;
        // A row that is narrower than a vector spills into the next one, which is written after it.
        if (Lanes - group >= kW || (group == 0 && done + i + 1 < k)) {
          Store<T>(at, v[i]);
        } else {
          StorePart<T>(at, v[i], Lanes - group);
        }
      }
    }
  }
  for (; done < k; ++done) {
    for (int64_t j = 0; j < Lanes; ++j)
      to[done * Lanes + j] = j < lanes ? from[j * lane_stride + done] : 0;
  }
}

// The same where the lanes lie side by side.
template <typename T, int Lanes>
ONEFLOW_INLINE void PackAlong(const T* from, int64_t k_stride, int64_t lanes, int64_t k, T* to) {
  for (int64_t i = 0; i < k; ++i, from += k_stride, to += Lanes) {
    if (lanes == Lanes) {
      __builtin_memcpy(to, from, Lanes * sizeof(T));
    } else {
      for (int64_t j = 0; j < Lanes; ++j) to[j] = j < lanes ? from[j] : 0;
    }
  }
}

// Packs `lanes` vectors of length k that lie `lane_stride` apart, elements `k_stride` apart, into
// panels of Lanes: packed[k][lane], zeros for missing lanes. One of the strides is 1.
template <typename T, int Lanes>
ONEFLOW_INLINE void PackPanel(const T* from, int64_t lane_stride, int64_t k_stride, int64_t lanes,
                              int64_t k, T* to) {
  if (k_stride == 1) {
    PackAcross<T, Lanes>(from, lane_stride, lanes, k, to);
  } else {
    PackAlong<T, Lanes>(from, k_stride, lanes, k, to);
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
ONEFLOW_INLINE void MultiplyTile(const T* a, const T* b, int64_t k, T* c, int64_t c_row,
                                 int64_t rows, int64_t columns, bool accumulate) {
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
