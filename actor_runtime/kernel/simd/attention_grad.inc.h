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
  const T *q, *dout;     // panel matrices of kBlock rows; q times the scale
  const T *kt, *vt;      // transposed panels
  const T *lse, *delta;  // of the block's rows; delta = dout . out
  T *p, *ds;             // probabilities, gradients of scaled scores
  int64_t d, width;      // width: d rounded up to full panels
  T cap;
};

// With kCapped, b.ds holds the derivatives of capped scores between the products.
template <typename T, int kVectors, bool kCapped>
ONEFLOW_INLINE void ScoreGradTile(const AttentionGradBlock<T>& b, const Visibility<T>& visibility,
                                  const SeenPanel& seen, int64_t r) {
  constexpr int64_t kPanel = kBlock * kLanes<T>;
  const int64_t key = seen.panel * kLanes<T>, at = key * kBlock + r * kLanes<T>;
  const bool masked = seen.IsMasked(r / kPanelRows);
  Vec<T> p[kPanelRows][kVectors] = {}, dp[kPanelRows][kVectors] = {};
  MultiplyPanel<T, kVectors>(PanelRows<T>{b.q + r * kLanes<T>, kPanel}, b.kt + key * b.d, b.d, p);
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      const int64_t to = at + i * kLanes<T> + j * kWidth<T>;
      if constexpr (kCapped) {
        const Vec<T> part = Tanh(p[i][j] / b.cap);
        p[i][j] = b.cap * part;
        Store<T>(b.ds + to, T(1) - part * part);
      }
      p[i][j] = Exp(p[i][j] - b.lse[r + i]);
      if (masked) p[i][j] = visibility.Keep(p[i][j], r + i, key + j * kWidth<T>, T(0));
      Store<T>(b.p + to, p[i][j]);
    }
  }
  MultiplyPanel<T, kVectors>(PanelRows<T>{b.dout + r * kLanes<T>, kPanel}, b.vt + key * b.d, b.d,
                             dp);
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      const int64_t to = at + i * kLanes<T> + j * kWidth<T>;
      Vec<T> ds = Load<T>(b.p + to) * (dp[i][j] - b.delta[r + i]);
      if constexpr (kCapped) ds *= Load<T>(b.ds + to);
      Store<T>(b.ds + to, ds);
    }
  }
}

// Probabilities and score gradients of the block.
template <typename T, bool kCapped>
void ScoreGrads(const AttentionGradBlock<T> b, const Visibility<T>& visibility) {
  visibility.ForTiles([&](const SeenPanel& seen, int64_t r) ONEFLOW_INLINED {
    if (visibility.keys - seen.panel * kLanes < T >> kWidth<T>) {
      ScoreGradTile<T, 2, kCapped>(b, visibility, seen, r);
    } else {
      ScoreGradTile<T, 1, kCapped>(b, visibility, seen, r);
    }
  });
}

// Adds the block's contribution to dk or dv (panel matrices of `padded` rows): weightsT times
// `right`.
template <typename T>
void AddKeyGrad(const AttentionGradBlock<T> b, const Visibility<T>& visibility, const T* weights,
                const T* right, int64_t padded, T* to) {
  visibility.ForKeyTiles([&](int64_t key, int64_t begin, int64_t end) ONEFLOW_INLINED {
    const PanelColumns<T> left{weights + key / kLanes<T> * (kBlock * kLanes<T>)+begin * kLanes<T> +
                               key % kLanes<T>};
    for (int64_t c = 0; c < b.width; c += kLanes<T>) {
      AddTileProduct<T>(left, right + c * kBlock + begin * kLanes<T>, end - begin,
                        to + c * padded + key * kLanes<T>);
    }
  });
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
  Visibility<T> visibility(h.visibility, h.keys, &scratch);
  T block_lse[kBlock] = {}, delta[kBlock] = {};  // zeros where the last tile has no rows
  const T scale = T(h.scale), cap = T(h.cap);
  ToPanels<T>(h.k, h.kv_row, h.keys, h.d, T(1), k, padded);
  TransposePanels<T>(k, padded, h.keys, h.d, kt);
  ToPanels<T>(h.v, h.kv_row, h.keys, h.d, T(1), dv_sum, padded);  // free until a block adds
  TransposePanels<T>(dv_sum, padded, h.keys, h.d, vt);
  for (int64_t i = 0; i < width * padded; ++i) dk_sum[i] = dv_sum[i] = T(0);
  for (int64_t head = 0; head < h.heads; ++head) {
    for (int64_t first = 0; first < h.queries; first += kBlock) {
      const int64_t rows = Least(kBlock, h.queries - first);
      const int64_t q_at = first * h.q_row + head * h.d, out_at = first * out_row + head * h.d;
      ToPanels<T>(h.q + q_at, h.q_row, rows, h.d, scale, q, kBlock);
      ToPanels<T>(dout + out_at, out_row, rows, h.d, T(1), from, kBlock);
      for (int64_t i = 0; i < rows; ++i) {
        block_lse[i] = lse[head * h.queries + first + i];
        const S *a = dout + out_at + i * out_row, *b = out + out_at + i * out_row;
        delta[i] = SumTerms<T>(h.d, [&](auto load, int64_t c) { return load(a, c) * load(b, c); });
      }
      const AttentionGradBlock<T> b{q, from, kt, vt, block_lse, delta, p, ds, h.d, width, cap};
      visibility.StartBlock(first, rows);
      cap == 0 ? ScoreGrads<T, false>(b, visibility) : ScoreGrads<T, true>(b, visibility);
      for (int64_t r = 0; r < rows; r += kPanelRows) {
        MultiplySeen<T>(visibility, r, ds, k, padded, width, dq_block);
      }
      FromPanels<T>(dq_block, kBlock, rows, h.d, scale, dq + q_at, h.q_row, false);
      AddKeyGrad<T>(b, visibility, ds, q, padded, dk_sum);
      AddKeyGrad<T>(b, visibility, p, from, padded, dv_sum);
    }
  }
  FromPanels<T>(dk_sum, padded, h.keys, h.d, T(1), dk, h.kv_row, false);
  FromPanels<T>(dv_sum, padded, h.keys, h.d, T(1), dv, h.kv_row, false);
}
