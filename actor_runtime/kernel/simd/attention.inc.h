// Causal attention of one head of one sequence. Part of attention_kernels.inc.h.
//
// Queries come in blocks of kAttentionBlock rows; only one block's scores exist at a time. A block
// is split into tiles of kPanelRows queries, and a tile reads no key after its last query, rounded
// up to a vector: masked scores are not computed.
//
// The bits of a query's row do not depend on the tiles around it: keys are read in order, and
// masked ones add zeros.

template <typename T>
ONEFLOW_INLINE T* Take(T** scratch, int64_t n) {
  T* taken = *scratch;
  *scratch += n;
  return taken;
}

ONEFLOW_INLINE float Log(float x) { return __builtin_logf(x); }
ONEFLOW_INLINE double Log(double x) { return __builtin_log(x); }

// Lanes 0 .. n of v, `fill` in the others; any n.
template <typename T>
ONEFLOW_INLINE Vec<T> KeepFirst(Vec<T> v, int64_t n, T fill) {
  using Lane = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Lane Lanes __attribute__((vector_size(ONEFLOW_VECTOR_BYTES)));
  Lanes lane;
  for (int64_t i = 0; i < kWidth<T>; ++i) lane[i] = static_cast<Lane>(i);
  return lane < static_cast<Lane>(n) ? v : Broadcast<T>(fill);
}

inline constexpr int64_t kBlock = kAttentionBlock;

// Calls tile(p, r, end) for each panel p of keys and each tile of queries that sees some of it:
// queries first + [r, r + kPanelRows), which see no key at `end` or after it.
template <typename T, typename Tile>
ONEFLOW_INLINE void ForVisibleTiles(int64_t first, int64_t rows, int64_t t, Tile tile) {
  for (int64_t p = 0; p * kLanes<T> < first + rows; ++p) {
    const int64_t hidden = p * kLanes<T> - first;  // queries of the block that see none of it
    for (int64_t r = hidden > 0 ? hidden / kPanelRows * kPanelRows : 0; r < rows; r += kPanelRows) {
      tile(p, r, Least(first + r + kPanelRows, t));
    }
  }
}

template <typename T, int kVectors>
ONEFLOW_INLINE void ScoreTile(const T* q, const T* kt, int64_t d, T* scores) {
  Vec<T> sum[kPanelRows][kVectors] = {};
  MultiplyPanel<T, kVectors>(PanelRows<T>{q, kBlock * kLanes<T>}, kt, d, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) Store<T>(scores + i * kLanes<T> + j * kWidth<T>, sum[i][j]);
  }
}

// One value for each row of a tile of queries.
template <typename T>
struct SoftmaxRows {
  T max[kPanelRows], sum[kPanelRows];
};

// A tile of scores in a panel matrix of kBlock rows becomes exp(score - max of its row). The first
// seen + i keys of row i are visible; the row is filled with zeros up to `end`. Rows are computed
// side by side, because a single row would wait for its own sums.
template <typename T>
SoftmaxRows<T> SoftmaxInPlace(T* tile, int64_t seen, int64_t end) {
  constexpr T kLowest = T(-__builtin_inf());
  auto at = [tile](int64_t key, int i) {
    return tile + key / kLanes<T> * (kBlock * kLanes<T>)+key % kLanes<T> + i * kLanes<T>;
  };
  Vec<T> top[kPanelRows], sum[kPanelRows] = {};
  for (Vec<T>& row : top) row = Broadcast<T>(kLowest);
  for (int64_t key = 0; key < end; key += kWidth<T>) {
    const bool diagonal = key + kWidth<T> > seen;
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i) {
      Vec<T> v = Load<T>(at(key, i));
      if (diagonal) Store<T>(at(key, i), v = KeepFirst<T>(v, seen + i - key, kLowest));
      top[i] = Max<T>(top[i], v);
    }
  }
  SoftmaxRows<T> rows;
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) rows.max[i] = MaxLane<T>(top[i]);
  for (int64_t key = 0; key < end; key += kWidth<T>) {
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i) {
      const Vec<T> p = Exp(Load<T>(at(key, i)) - rows.max[i]);
      Store<T>(at(key, i), p);
      sum[i] += p;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) rows.sum[i] = Sum<T>(sum[i]);
  return rows;
}

template <typename T, typename S>
void Attention(const AttentionHead<S>& h, S* out, int64_t out_row, T* lse, bool accumulate,
               T* scratch) {
  const int64_t keys = RoundUp(h.t, kBlock), width = RoundUp(h.d, kLanes<T>);
  constexpr int64_t kPanel = kBlock * kLanes<T>;
  T *kt = Take(&scratch, h.d * keys), *v = Take(&scratch, width * keys);
  T *q = Take(&scratch, width * kBlock), *o = Take(&scratch, width * kBlock);
  T *s = Take(&scratch, keys * kBlock), *k = Take(&scratch, width * keys);
  const T scale = T(1) / Root(T(h.d));
  ToPanels<T>(h.k, h.row, h.t, h.d, T(1), k, keys);
  TransposePanels<T>(k, keys, h.t, h.d, kt);
  ToPanels<T>(h.v, h.row, h.t, h.d, T(1), v, keys);
  for (int64_t first = 0; first < h.t; first += kBlock) {
    const int64_t rows = Least(kBlock, h.t - first);
    ToPanels<T>(h.q + first * h.row, h.row, rows, h.d, scale, q, kBlock);
    ForVisibleTiles<T>(first, rows, h.t, [&](int64_t p, int64_t r, int64_t end) {
      T* scores = s + p * kPanel + r * kLanes<T>;
      const T *left = q + r * kLanes<T>, *right = kt + p * h.d * kLanes<T>;
      if (end - p * kLanes < T >> kWidth<T>) {
        ScoreTile<T, 2>(left, right, h.d, scores);
      } else {
        ScoreTile<T, 1>(left, right, h.d, scores);
      }
    });
    for (int64_t r = 0; r < rows; r += kPanelRows) {
      const int64_t end = Least(first + r + kPanelRows, h.t);
      const int64_t there = Least(kPanelRows, rows - r);
      const SoftmaxRows<T> softmax = SoftmaxInPlace<T>(s + r * kLanes<T>, first + r + 1, end);
      for (int64_t i = 0; i < there; ++i) {
        lse[first + r + i] = softmax.max[i] + Log(softmax.sum[i]);
      }
      const PanelRows<T> p{s + r * kLanes<T>, kPanel};
      for (int64_t c = 0; c < width; c += kLanes<T>) {
        MultiplyTileInto<T>(p, v + c * keys, end, o + c * kBlock + r * kLanes<T>, false);
      }
      for (int64_t i = 0; i < there; ++i) {
        FromPanels<T>(o + (r + i) * kLanes<T>, kBlock, 1, h.d, T(1) / softmax.sum[i],
                      out + (first + r + i) * out_row, out_row, accumulate);
      }
    }
  }
}
