// Attention of one group of heads of one sequence. Part of attention_kernels.inc.h.
//
// Queries come in blocks of kAttentionBlock rows; only one block's scores exist at a time. A block
// is split into tiles of kPanelRows queries, which read the panels of keys of which they may see
// some (attention_visibility.inc.h), in order.
//
// The bits of a query's row do not depend on the tiles around it: keys are read in order, and
// masked ones add zeros.

ONEFLOW_INLINE float Log(float x) { return __builtin_logf(x); }
ONEFLOW_INLINE double Log(double x) { return __builtin_log(x); }

template <typename T, int kVectors>
ONEFLOW_INLINE void ScoreTile(const T* q, const T* kt, int64_t d, T* scores) {
  Vec<T> sum[kPanelRows][kVectors] = {};
  MultiplyPanel<T, kVectors>(PanelRows<T>{q, kBlock * kLanes<T>}, kt, d, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) Store<T>(scores + i * kLanes<T> + j * kWidth<T>, sum[i][j]);
  }
}

// The scores that ScoreTile has stored become cap * tanh(score / cap).
template <typename T, int kVectors>
ONEFLOW_INLINE void CapTile(T cap, T* scores) {
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      T* at = scores + i * kLanes<T> + j * kWidth<T>;
      Store<T>(at, cap * Tanh(Load<T>(at) / cap));
    }
  }
}

// One value for each row of a tile of queries.
template <typename T>
struct SoftmaxRows {
  T max[kPanelRows], sum[kPanelRows];
};

// The scores of queries r, ... of a block, a panel matrix of kBlock rows, become exp(score - max of
// its row); 0 where a query does not see the key. Rows are computed side by side, because a single
// row would wait for its own sums. A row that sees nothing has the maximum -infinity and the sum 0.
// `sink` is one score more of each row; kLowest: there is none.
template <typename T>
inline constexpr T kLowest = T(-__builtin_inf());

template <typename T>
SoftmaxRows<T> SoftmaxInPlace(T* scores, const Visibility<T>& visibility, int64_t r, T sink) {
  const auto at = [tile = scores + r * kLanes<T>](int64_t key, int i) {
    return tile + key / kLanes<T> * (kBlock * kLanes<T>)+key % kLanes<T> + i * kLanes<T>;
  };
  visibility.ForMaskedVectors(r, [&](int64_t key) ONEFLOW_INLINED {
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i) {
      Store<T>(at(key, i), visibility.Keep(Load<T>(at(key, i)), r + i, key, kLowest<T>));
    }
  });
  Vec<T> top[kPanelRows], sum[kPanelRows] = {};
  for (Vec<T>& row : top) row = Broadcast<T>(sink);
  visibility.ForRuns(r, [&](int64_t begin, int64_t end) ONEFLOW_INLINED {
    for (int64_t key = begin; key < end; key += kWidth<T>) {
#pragma GCC unroll 8
      for (int i = 0; i < kPanelRows; ++i) top[i] = Max<T>(top[i], Load<T>(at(key, i)));
    }
  });
  SoftmaxRows<T> rows;
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) rows.max[i] = MaxLane<T>(top[i]);
  visibility.ForRuns(r, [&](int64_t begin, int64_t end) ONEFLOW_INLINED {
    for (int64_t key = begin; key < end; key += kWidth<T>) {
#pragma GCC unroll 8
      for (int i = 0; i < kPanelRows; ++i) {
        const T shift = rows.max[i] == kLowest<T> ? T(0) : rows.max[i];  // -inf - -inf is no number
        const Vec<T> p = Exp(Load<T>(at(key, i)) - shift);
        Store<T>(at(key, i), p);
        sum[i] += p;
      }
    }
  });
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
    rows.sum[i] = Sum<T>(sum[i]);
    if (sink != kLowest<T>) rows.sum[i] += Exp(Broadcast<T>(sink - rows.max[i]))[0];
  }
  return rows;
}

// c = a b for a tile of queries r, ... of a block; all are panel matrices, a and c of kBlock rows,
// b of `padded`, with `width` columns. Of a, the columns of the keys that the tile may see are
// there.
template <typename T>
void MultiplySeen(const Visibility<T>& visibility, int64_t r, const T* a, const T* b,
                  int64_t padded, int64_t width, T* c) {
  for (int64_t column = 0; column < width; column += kLanes<T>) {
    T* tile = c + column * kBlock + r * kLanes<T>;
    for (int64_t i = 0; i < kPanelRows * kLanes<T>; i += kWidth<T>) Store<T>(tile + i, Vec<T>{});
  }
  visibility.ForRuns(r, [&](int64_t begin, int64_t end) ONEFLOW_INLINED {
    const PanelRows<T> left{a + begin * kBlock + r * kLanes<T>, kBlock * kLanes<T>};
    for (int64_t column = 0; column < width; column += kLanes<T>) {
      AddTileProduct<T>(left, b + column * padded + begin * kLanes<T>, end - begin,
                        c + column * kBlock + r * kLanes<T>);
    }
  });
}

// The operands of a group: keys and values in panels, and room for a block.
template <typename T>
struct AttentionOperands {
  const T *kt, *v;  // transposed panels, panels of `padded` rows
  T *q, *o, *s;     // of the block: queries times the scale, results, scores
  int64_t padded, width;
};

// The weighted values of queries r, ... of a block, from their scores.
template <typename T, typename S>
ONEFLOW_INLINE void FinishTile(const AttentionOperands<T>& b, const Visibility<T>& visibility,
                               int64_t r, int64_t d, T sink, S* out, int64_t out_row, T* lse,
                               bool accumulate) {
  const int64_t there = Least(kPanelRows, visibility.rows - r);
  const SoftmaxRows<T> softmax = SoftmaxInPlace<T>(b.s, visibility, r, sink);
  for (int64_t i = 0; i < there; ++i) lse[r + i] = softmax.max[i] + Log(softmax.sum[i]);
  MultiplySeen<T>(visibility, r, b.s, b.v, b.padded, b.width, b.o);
  for (int64_t i = 0; i < there; ++i) {
    const T sum = softmax.sum[i];
    FromPanels<T>(b.o + (r + i) * kLanes<T>, kBlock, 1, d, sum == 0 ? T(0) : T(1) / sum,
                  out + (r + i) * out_row, out_row, accumulate);
  }
}

template <typename T, typename S>
void Attention(const AttentionGroup<S>& h, const T* sinks, S* out, int64_t out_row, T* lse,
               bool accumulate, T* scratch) {
  AttentionOperands<T> b{};
  b.padded = RoundUp(h.keys, kBlock), b.width = RoundUp(h.d, kLanes<T>);
  T *kt = Take(&scratch, h.d * b.padded), *v = Take(&scratch, b.width * b.padded);
  b.kt = kt, b.v = v;
  b.q = Take(&scratch, b.width * kBlock), b.o = Take(&scratch, b.width * kBlock);
  b.s = Take(&scratch, b.padded * kBlock);
  T* k = Take(&scratch, b.width * b.padded);
  Visibility<T> visibility(h.visibility, h.keys, &scratch);
  const T cap = T(h.cap);
  ToPanels<T>(h.k, h.kv_row, h.keys, h.d, T(1), k, b.padded);
  TransposePanels<T>(k, b.padded, h.keys, h.d, kt);
  ToPanels<T>(h.v, h.kv_row, h.keys, h.d, T(1), v, b.padded);
  const auto score = [&](const SeenPanel& seen, int64_t r) ONEFLOW_INLINED {
    const int64_t key = seen.panel * kLanes<T>;
    T* scores = b.s + key * kBlock + r * kLanes<T>;
    const T *left = b.q + r * kLanes<T>, *right = b.kt + key * h.d;
    if (visibility.ends[r / kPanelRows] - key > kWidth<T>) {
      ScoreTile<T, 2>(left, right, h.d, scores);
      if (cap != 0) CapTile<T, 2>(cap, scores);
    } else {
      ScoreTile<T, 1>(left, right, h.d, scores);
      if (cap != 0) CapTile<T, 1>(cap, scores);
    }
  };
  for (int64_t head = 0; head < h.heads; ++head) {
    for (int64_t first = 0; first < h.queries; first += kBlock) {
      const int64_t rows = Least(kBlock, h.queries - first);
      ToPanels<T>(h.q + first * h.q_row + head * h.d, h.q_row, rows, h.d, T(h.scale), b.q, kBlock);
      visibility.StartBlock(first, rows);
      visibility.ForTiles(score);
      for (int64_t r = 0; r < rows; r += kPanelRows) {
        FinishTile<T>(b, visibility, r, h.d, sinks == nullptr ? kLowest<T> : sinks[head],
                      out + first * out_row + head * h.d, out_row, lse + head * h.queries + first,
                      accumulate);
      }
    }
  }
}
