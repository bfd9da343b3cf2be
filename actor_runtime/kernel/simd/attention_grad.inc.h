// The gradient of causal attention of one head of one sequence. Part of attention_kernels.inc.h.
//
// Blocks and tiles are as in attention.inc.h. Probabilities are recomputed from the saved
// log-sum-exp. A tile of them and of the scores' gradients stays in registers between its two
// products. Gradients of keys and values are summed over blocks, in order.

// A block of queries, and the operands of its products.
template <typename T>
struct AttentionGradBlock {
  const T *q, *dout;                 // panel matrices of kBlock rows; q times the scale
  const T *kt, *vt;                  // transposed panels
  const T *lse, *delta;              // of the block's rows; delta = dout . out
  T *p, *ds;                         // probabilities, gradients of scaled scores
  int64_t first, rows, t, d, width;  // width: d rounded up to full panels
};

template <typename T, int kVectors>
ONEFLOW_INLINE void ScoreGradTile(const AttentionGradBlock<T>& b, int64_t panel, int64_t r) {
  constexpr int64_t kPanel = kBlock * kLanes<T>;
  const int64_t key = panel * kLanes<T>, at = panel * kPanel + r * kLanes<T>;
  const bool diagonal = key + kVectors * kWidth<T> > b.first + r + 1;
  Vec<T> p[kPanelRows][kVectors] = {}, dp[kPanelRows][kVectors] = {};
  MultiplyPanel<T, kVectors>(PanelRows<T>{b.q + r * kLanes<T>, kPanel}, b.kt + key * b.d, b.d, p);
  for (int i = 0; i < kPanelRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      p[i][j] = Exp(p[i][j] - b.lse[r + i]);
      const int64_t seen = b.first + r + i + 1 - (key + j * kWidth<T>);
      if (diagonal) p[i][j] = KeepFirst<T>(p[i][j], seen, T(0));
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

// dq of the block, a panel matrix of kBlock rows: ds times k, a panel matrix of `keys` rows.
template <typename T>
void QueryGrad(const AttentionGradBlock<T>& b, const T* k, int64_t keys, T* dq) {
  for (int64_t r = 0; r < b.rows; r += kPanelRows) {
    const int64_t end = Least(b.first + r + kPanelRows, b.t);
    for (int64_t c = 0; c < b.width; c += kLanes<T>) {
      MultiplyTileInto<T>(PanelRows<T>{b.ds + r * kLanes<T>, kBlock * kLanes<T>}, k + c * keys, end,
                          dq + c * kBlock + r * kLanes<T>, false);
    }
  }
}

// Adds the block's contribution to dk or dv (panel matrices of `keys` rows): weightsT times
// `right`. The block that holds a key is the first that sees it, and sets its row.
template <typename T>
void AddKeyGrad(const AttentionGradBlock<T>& b, const T* weights, const T* right, int64_t keys,
                T* to) {
  for (int64_t key = 0; key < b.first + b.rows; key += kPanelRows) {
    const int64_t r = key < b.first ? 0 : key - b.first;
    const PanelColumns<T> left{weights + key / kLanes<T> * (kBlock * kLanes<T>)+r * kLanes<T> +
                               key % kLanes<T>};
    for (int64_t c = 0; c < b.width; c += kLanes<T>) {
      MultiplyTileInto<T>(left, right + c * kBlock + r * kLanes<T>, b.rows - r,
                          to + c * keys + key * kLanes<T>, key < b.first);
    }
  }
}

template <typename T, typename S>
void AttentionGrad(const AttentionHead<S>& h, const S* dout, const S* out, int64_t out_row,
                   const T* lse, S* dq, S* dk, S* dv, T* scratch) {
  const int64_t keys = RoundUp(h.t, kBlock), width = RoundUp(h.d, kLanes<T>);
  T *kt = Take(&scratch, h.d * keys), *vt = Take(&scratch, h.d * keys);
  T* k = Take(&scratch, width * keys);
  T *dk_sum = Take(&scratch, width * keys), *dv_sum = Take(&scratch, width * keys);
  T *q = Take(&scratch, width * kBlock), *from = Take(&scratch, width * kBlock);
  T* dq_block = Take(&scratch, width * kBlock);
  T *p = Take(&scratch, keys * kBlock), *ds = Take(&scratch, keys * kBlock);
  T block_lse[kBlock] = {}, delta[kBlock] = {};  // zeros where the last tile has no rows
  const T scale = T(1) / Root(T(h.d));
  ToPanels<T>(h.k, h.row, h.t, h.d, T(1), k, keys);
  TransposePanels<T>(k, keys, h.t, h.d, kt);
  ToPanels<T>(h.v, h.row, h.t, h.d, T(1), dv_sum, keys);  // free until the first block adds
  TransposePanels<T>(dv_sum, keys, h.t, h.d, vt);
  for (int64_t first = 0; first < h.t; first += kBlock) {
    const int64_t rows = Least(kBlock, h.t - first);
    ToPanels<T>(h.q + first * h.row, h.row, rows, h.d, scale, q, kBlock);
    ToPanels<T>(dout + first * out_row, out_row, rows, h.d, T(1), from, kBlock);
    for (int64_t i = 0; i < rows; ++i) {
      block_lse[i] = lse[first + i];
      const S *a = dout + (first + i) * out_row, *b = out + (first + i) * out_row;
      delta[i] = SumTerms<T>(h.d, [&](auto load, int64_t c) { return load(a, c) * load(b, c); });
    }
    const AttentionGradBlock<T> block{q,  from,  kt,   vt,  block_lse, delta, p,
                                      ds, first, rows, h.t, h.d,       width};
    ForVisibleTiles<T>(first, rows, h.t, [&](int64_t panel, int64_t r, int64_t end) {
      if (end - panel * kLanes < T >> kWidth<T>) {
        ScoreGradTile<T, 2>(block, panel, r);
      } else {
        ScoreGradTile<T, 1>(block, panel, r);
      }
    });
    QueryGrad<T>(block, k, keys, dq_block);
    FromPanels<T>(dq_block, kBlock, rows, h.d, scale, dq + first * h.row, h.row, false);
    AddKeyGrad<T>(block, ds, q, keys, dk_sum);
    AddKeyGrad<T>(block, p, from, keys, dv_sum);
  }
  FromPanels<T>(dk_sum, keys, h.t, h.d, T(1), dk, h.row, false);
  FromPanels<T>(dv_sum, keys, h.t, h.d, T(1), dv, h.row, false);
}
