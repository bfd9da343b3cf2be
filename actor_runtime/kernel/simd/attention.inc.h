// Attention of one group of heads of one sequence. Part of attention_kernels.inc.h.
//
// Queries come in blocks of kAttentionBlock rows; only one block's scores exist at a time. A block
// is split into tiles of kPanelRows queries. Where rows are positions, a tile reads no key after
// its last query, rounded up to a vector: masked scores are not computed. Where positions are data,
// the tiles of a block read the keys of its range (attention_visibility.inc.h).
//
// The bits of a query's row do not depend on the tiles around it: keys are read in order, and
// masked ones add zeros.

ONEFLOW_INLINE float Log(float x) { return __builtin_logf(x); }
ONEFLOW_INLINE double Log(double x) { return __builtin_log(x); }

inline constexpr int64_t kBlock = kAttentionBlock;

ONEFLOW_INLINE bool IsCausal(const AttentionVisibility& v) {
  return v.q_positions == nullptr && v.window == 0;
}

// Calls tile(p, r, end) for each panel p of keys and each tile of queries that sees some of it:
// queries first + [r, r + kPanelRows), which see no key at `end` or after it.
template <typename T, typename Tile>
ONEFLOW_INLINE void ForCausalTiles(int64_t first, int64_t rows, int64_t keys, Tile tile) {
  for (int64_t p = 0; p * kLanes<T> < first + rows; ++p) {
    const int64_t hidden = p * kLanes<T> - first;  // queries of the block that see none of it
    for (int64_t r = hidden > 0 ? hidden / kPanelRows * kPanelRows : 0; r < rows; r += kPanelRows) {
      tile(p, r, Least(first + r + kPanelRows, keys));
    }
  }
}

// The same for all panels of the range of a block.
template <typename T, typename Tile>
ONEFLOW_INLINE void ForTilesIn(const typename Visibility<T>::Range& range, int64_t rows,
                               Tile tile) {
  for (int64_t p = range.begin / kLanes<T>; p * kLanes<T> < range.end; ++p) {
    for (int64_t r = 0; r < rows; r += kPanelRows) tile(p, r, range.end);
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

// A tile of scores in a panel matrix of kBlock rows becomes exp(score - max of its row), for keys
// [begin, end); 0 where `visible` hides the key. Rows are computed side by side, because a single
// row would wait for its own sums. A row that sees nothing has the maximum -infinity and the sum 0.
template <typename T, typename Rows>
SoftmaxRows<T> SoftmaxInPlace(T* tile, const Rows& visible, int64_t begin, int64_t end) {
  constexpr T kLowest = T(-__builtin_inf());
  auto at = [tile](int64_t key, int i) {
    return tile + key / kLanes<T> * (kBlock * kLanes<T>)+key % kLanes<T> + i * kLanes<T>;
  };
  Vec<T> top[kPanelRows], sum[kPanelRows] = {};
  for (Vec<T>& row : top) row = Broadcast<T>(kLowest);
  for (int64_t key = begin; key < end; key += kWidth<T>) {
    const bool hides = visible.Hides(key, kWidth<T>);
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i) {
      Vec<T> v = Load<T>(at(key, i));
      if (hides) Store<T>(at(key, i), v = visible.Keep(v, i, key, kLowest));
      top[i] = Max<T>(top[i], v);
    }
  }
  SoftmaxRows<T> rows;
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) rows.max[i] = MaxLane<T>(top[i]);
  for (int64_t key = begin; key < end; key += kWidth<T>) {
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i) {
      const T shift = rows.max[i] == kLowest ? T(0) : rows.max[i];  // -inf - -inf is no number
      const Vec<T> p = Exp(Load<T>(at(key, i)) - shift);
      Store<T>(at(key, i), p);
      sum[i] += p;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) rows.sum[i] = Sum<T>(sum[i]);
  return rows;
}

// The operands of a group: keys and values in panels, and room for a block.
template <typename T>
struct AttentionOperands {
  const T *kt, *v;  // transposed panels, panels of `padded` rows
  T *q, *o, *s;     // of the block: queries times the scale, results, scores
  int64_t padded, width;
};

// The weighted values of a tile, rows r, ... of a block, from its scores for keys [begin, end).
template <typename T, typename S, typename Rows>
ONEFLOW_INLINE void FinishTile(const AttentionOperands<T>& b, const Rows& visible, int64_t r,
                               int64_t rows, int64_t begin, int64_t end, int64_t d, S* out,
                               int64_t out_row, T* lse, bool accumulate) {
  constexpr int64_t kPanel = kBlock * kLanes<T>;
  const int64_t there = Least(kPanelRows, rows - r);
  const SoftmaxRows<T> softmax = SoftmaxInPlace<T>(b.s + r * kLanes<T>, visible, begin, end);
  for (int64_t i = 0; i < there; ++i) lse[r + i] = softmax.max[i] + Log(softmax.sum[i]);
  const PanelRows<T> p{b.s + begin * kBlock + r * kLanes<T>, kPanel};
  for (int64_t c = 0; c < b.width; c += kLanes<T>) {
    MultiplyTileInto<T>(p, b.v + c * b.padded + begin * kLanes<T>, end - begin,
                        b.o + c * kBlock + r * kLanes<T>, false);
  }
  for (int64_t i = 0; i < there; ++i) {
    const T sum = softmax.sum[i];
    FromPanels<T>(b.o + (r + i) * kLanes<T>, kBlock, 1, d, sum == 0 ? T(0) : T(1) / sum,
                  out + (r + i) * out_row, out_row, accumulate);
  }
}

template <typename T, typename S>
void Attention(const AttentionGroup<S>& h, S* out, int64_t out_row, T* lse, bool accumulate,
               T* scratch) {
  AttentionOperands<T> b{};
  b.padded = RoundUp(h.keys, kBlock), b.width = RoundUp(h.d, kLanes<T>);
  constexpr int64_t kPanel = kBlock * kLanes<T>;
  T *kt = Take(&scratch, h.d * b.padded), *v = Take(&scratch, b.width * b.padded);
  b.kt = kt, b.v = v;
  b.q = Take(&scratch, b.width * kBlock), b.o = Take(&scratch, b.width * kBlock);
  b.s = Take(&scratch, b.padded * kBlock);
  T* k = Take(&scratch, b.width * b.padded);
  const T scale = T(1) / Root(T(h.d));
  ToPanels<T>(h.k, h.kv_row, h.keys, h.d, T(1), k, b.padded);
  TransposePanels<T>(k, b.padded, h.keys, h.d, kt);
  ToPanels<T>(h.v, h.kv_row, h.keys, h.d, T(1), v, b.padded);
  const auto score = [&](int64_t p, int64_t r, int64_t end) {
    T* scores = b.s + p * kPanel + r * kLanes<T>;
    const T *left = b.q + r * kLanes<T>, *right = b.kt + p * h.d * kLanes<T>;
    if (end - p * kLanes < T >> kWidth<T>) {
      ScoreTile<T, 2>(left, right, h.d, scores);
    } else {
      ScoreTile<T, 1>(left, right, h.d, scores);
    }
  };
  // block(first, rows, out, lse) for each block of queries of each head, with its queries packed.
  const auto for_blocks = [&](auto block) {
    for (int64_t head = 0; head < h.heads; ++head) {
      for (int64_t first = 0; first < h.queries; first += kBlock) {
        const int64_t rows = Least(kBlock, h.queries - first);
        ToPanels<T>(h.q + first * h.q_row + head * h.d, h.q_row, rows, h.d, scale, b.q, kBlock);
        block(first, rows, out + first * out_row + head * h.d, lse + head * h.queries + first);
      }
    }
  };
  if (IsCausal(h.visibility)) {
    for_blocks([&](int64_t first, int64_t rows, S* to, T* to_lse) {
      ForCausalTiles<T>(first, rows, h.keys, score);
      for (int64_t r = 0; r < rows; r += kPanelRows) {
        const int64_t end = Least(first + r + kPanelRows, h.keys);
        FinishTile<T>(b, CausalRows<T>{first + r + 1}, r, rows, 0, end, h.d, to, out_row, to_lse,
                      accumulate);
      }
    });
    return;
  }
  Visibility<T> visibility(h.visibility, h.keys, &scratch);
  for_blocks([&](int64_t first, int64_t rows, S* to, T* to_lse) {
    const auto range = visibility.StartBlock(first, rows);
    ForTilesIn<T>(range, rows, score);
    for (int64_t r = 0; r < rows; r += kPanelRows) {
      FinishTile<T>(b, VisibleRows<T>{visibility, r}, r, rows, range.begin, range.end, h.d, to,
                    out_row, to_lse, accumulate);
    }
  });
}
