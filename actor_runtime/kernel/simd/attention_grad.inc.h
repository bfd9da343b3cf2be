// The gradient of attention of one group of heads of one sequence. Part of
// attention_kernels.inc.h.
//
// Blocks and tiles are as in attention.inc.h. Probabilities are recomputed from the saved
// log-sum-exp. A tile of them and of the scores' gradients stays in registers between its two
// products. Gradients of keys and values are summed over heads and over blocks, in order.

// A block of queries, and the operands of its products. Functions with loops take it by value: a
// store through a pointer could change what a reference refers to, so it would be loaded again.
template <typename T>
struct AttentionGradBlock {
  const T *q, *dout;       // panel matrices of kBlock rows; q times the scale
  const T *kt, *vt;        // transposed panels
  const T *lse, *delta;    // of the block's rows; delta = dout . out
  T *p, *ds;               // probabilities, gradients of scaled scores
  int64_t rows, d, width;  // width: d rounded up to full panels
};

template <typename T, int kVectors, typename Rows>
ONEFLOW_INLINE void ScoreGradTile(const AttentionGradBlock<T>& b, const Rows& visible,
                                  int64_t panel, int64_t r) {
  constexpr int64_t kPanel = kBlock * kLanes<T>;
  const int64_t key = panel * kLanes<T>, at = panel * kPanel + r * kLanes<T>;
  const bool hides = visible.Hides(key, kVectors * kWidth<T>);
  Vec<T> p[kPanelRows][kVectors] = {}, dp[kPanelRows][kVectors] = {};
  MultiplyPanel<T, kVectors>(PanelRows<T>{b.q + r * kLanes<T>, kPanel}, b.kt + key * b.d, b.d, p);
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      p[i][j] = Exp(p[i][j] - b.lse[r + i]);
      if (hides) p[i][j] = visible.Keep(p[i][j], i, key + j * kWidth<T>, T(0));
      Store<T>(b.p + at + i * kLanes<T> + j * kWidth<T>, p[i][j]);
    }
  }
  MultiplyPanel<T, kVectors>(PanelRows<T>{b.dout + r * kLanes<T>, kPanel}, b.vt + key * b.d, b.d,
                             dp);
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      const int64_t to = at + i * kLanes<T> + j * kWidth<T>;
      Store<T>(b.ds + to, Load<T>(b.p + to) * (dp[i][j] - b.delta[r + i]));
    }
  }
}

// Inlined in the loops of tiles: a tile in a function of its own would read the fields of the block
// from memory, and the gradient would take a tenth longer.
template <typename T, typename Rows>
ONEFLOW_INLINE void ScoreGrads(const AttentionGradBlock<T>& b, const Rows& visible, int64_t panel,
                               int64_t r, int64_t end) {
  if (end - panel * kLanes < T >> kWidth<T>) {
    ScoreGradTile<T, 2>(b, visible, panel, r);
  } else {
    ScoreGradTile<T, 1>(b, visible, panel, r);
  }
}

template <typename T>
struct CausalScoreGrad {
  const AttentionGradBlock<T>& b;
  int64_t first;

  ONEFLOW_INLINE void operator()(int64_t panel, int64_t r, int64_t end) const {
    ScoreGrads<T>(b, CausalRows<T>{first + r + 1}, panel, r, end);
  }
};

template <typename T>
struct VisibleScoreGrad {
  const AttentionGradBlock<T>& b;
  const Visibility<T>& visibility;

  ONEFLOW_INLINE void operator()(int64_t panel, int64_t r, int64_t end) const {
    ScoreGrads<T>(b, VisibleRows<T>{visibility, r}, panel, r, end);
  }
};

// Probabilities and score gradients of a block whose first query is at position `first`; and of a
// block that sees the keys of `range`.
template <typename T>
void CausalScoreGrads(const AttentionGradBlock<T> b, int64_t first, int64_t keys) {
  ForCausalTiles<T>(first, b.rows, keys, CausalScoreGrad<T>{b, first});
}

template <typename T>
void VisibleScoreGrads(const AttentionGradBlock<T> b, const Visibility<T>& visibility,
                       const typename Visibility<T>::Range& range) {
  ForTilesIn<T>(range, b.rows, VisibleScoreGrad<T>{b, visibility});
}

// dq of the block, a panel matrix of kBlock rows: ds times k, a panel matrix of `padded` rows. The
// tile of rows r, ... reads keys [begin, end(r)).
template <typename T, typename End>
void QueryGrad(const AttentionGradBlock<T> b, const T* k, int64_t padded, int64_t begin, End end,
               T* dq) {
  for (int64_t r = 0; r < b.rows; r += kPanelRows) {
    const PanelRows<T> ds{b.ds + begin * kBlock + r * kLanes<T>, kBlock * kLanes<T>};
    for (int64_t c = 0; c < b.width; c += kLanes<T>) {
      MultiplyTileInto<T>(ds, k + c * padded + begin * kLanes<T>, end(r) - begin,
                          dq + c * kBlock + r * kLanes<T>, false);
    }
  }
}

// Adds the block's contribution to keys [begin, end) of dk or dv (panel matrices of `padded` rows):
// weightsT times `right`. The rows of the block before first_row(key) see none of the keys from
// `key` on, a tile, and the keys that accumulate(key) excepts are set.
template <typename T, typename Row, typename Accumulate>
void AddKeyGrad(const AttentionGradBlock<T> b, const T* weights, const T* right, int64_t padded,
                int64_t begin, int64_t end, Row first_row, Accumulate accumulate, T* to) {
  for (int64_t key = begin; key < end; key += kPanelRows) {
    const int64_t r = first_row(key);
    const PanelColumns<T> left{weights + key / kLanes<T> * (kBlock * kLanes<T>)+r * kLanes<T> +
                               key % kLanes<T>};
    for (int64_t c = 0; c < b.width; c += kLanes<T>) {
      MultiplyTileInto<T>(left, right + c * kBlock + r * kLanes<T>, b.rows - r,
                          to + c * padded + key * kLanes<T>, accumulate(key));
    }
  }
}

template <typename T, typename S>
void AttentionGrad(const AttentionGroup<S>& h, const S* dout, const S* out, int64_t out_row,
                   const T* lse, S* dq, S* dk, S* dv, T* scratch) {
  const int64_t padded = RoundUp(h.keys, kBlock), width = RoundUp(h.d, kLanes<T>);
  T *kt = Take(&scratch, h.d * padded), *vt = Take(&scratch, h.d * padded);
  T* k = Take(&scratch, width * padded);
  T *dk_sum = Take(&scratch, width * padded), *dv_sum = Take(&scratch, width * padded);
  T *q = Take(&scratch, width * kBlock), *from = Take(&scratch, width * kBlock);
  T* dq_block = Take(&scratch, width * kBlock);
  T *p = Take(&scratch, padded * kBlock), *ds = Take(&scratch, padded * kBlock);
  T block_lse[kBlock] = {}, delta[kBlock] = {};  // zeros where the last tile has no rows
  const T scale = T(1) / Root(T(h.d));
  ToPanels<T>(h.k, h.kv_row, h.keys, h.d, T(1), k, padded);
  TransposePanels<T>(k, padded, h.keys, h.d, kt);
  ToPanels<T>(h.v, h.kv_row, h.keys, h.d, T(1), dv_sum, padded);  // free until a block adds
  TransposePanels<T>(dv_sum, padded, h.keys, h.d, vt);
  // block(b, head, first) for each block of queries of each head, with its operands.
  const auto for_blocks = [&](auto block) {
    for (int64_t head = 0; head < h.heads; ++head) {
      for (int64_t first = 0; first < h.queries; first += kBlock) {
        const int64_t rows = Least(kBlock, h.queries - first);
        const int64_t q_at = first * h.q_row + head * h.d, out_at = first * out_row + head * h.d;
        ToPanels<T>(h.q + q_at, h.q_row, rows, h.d, scale, q, kBlock);
        ToPanels<T>(dout + out_at, out_row, rows, h.d, T(1), from, kBlock);
        for (int64_t i = 0; i < rows; ++i) {
          block_lse[i] = lse[head * h.queries + first + i];
          const S *a = dout + out_at + i * out_row, *b = out + out_at + i * out_row;
          delta[i] =
              SumTerms<T>(h.d, [&](auto load, int64_t c) { return load(a, c) * load(b, c); });
        }
        block(AttentionGradBlock<T>{q, from, kt, vt, block_lse, delta, p, ds, rows, h.d, width},
              head, first);
        FromPanels<T>(dq_block, kBlock, rows, h.d, scale, dq + q_at, h.q_row, false);
      }
    }
  };
  // Where no block sets the rows of all keys.
  if (h.heads == 0 || !IsCausal(h.visibility)) {
    for (int64_t i = 0; i < width * padded; ++i) dk_sum[i] = dv_sum[i] = T(0);
  }
  if (IsCausal(h.visibility)) {
    for_blocks([&](const AttentionGradBlock<T>& b, int64_t head, int64_t first) {
      CausalScoreGrads<T>(b, first, h.keys);
      const auto end = [&](int64_t r) { return Least(first + r + kPanelRows, h.keys); };
      QueryGrad<T>(b, k, padded, 0, end, dq_block);
      // The block that holds a key is the first that sees it, and in the first head sets its row.
      const auto row = [first](int64_t key) { return key < first ? 0 : key - first; };
      const auto adds = [&](int64_t key) { return head > 0 || key < first; };
      AddKeyGrad<T>(b, ds, q, padded, 0, first + b.rows, row, adds, dk_sum);
      AddKeyGrad<T>(b, p, from, padded, 0, first + b.rows, row, adds, dv_sum);
    });
  } else {
    Visibility<T> visibility(h.visibility, h.keys, &scratch);
    for_blocks([&](const AttentionGradBlock<T>& b, int64_t, int64_t first) {
      const auto range = visibility.StartBlock(first, b.rows);
      VisibleScoreGrads<T>(b, visibility, range);
      QueryGrad<T>(
          b, k, padded, range.begin, [&](int64_t) { return range.end; }, dq_block);
      const auto row = [](int64_t) { return int64_t{0}; };
      const auto adds = [](int64_t) { return true; };
      AddKeyGrad<T>(b, ds, q, padded, range.begin, range.end, row, adds, dk_sum);
      AddKeyGrad<T>(b, p, from, padded, range.begin, range.end, row, adds, dv_sum);
    });
  }
  FromPanels<T>(dk_sum, padded, h.keys, h.d, T(1), dk, h.kv_row, false);
  FromPanels<T>(dv_sum, padded, h.keys, h.d, T(1), dv, h.kv_row, false);
}
