// Rows of logits that are in memory, to their statistics and to their gradient: what the kernels of
// full logits and those of a piece of them share, bit for bit. Internal to kernel/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {

// The maximum of each of `rows` full rows, the sum of exponents below it, and the element of the
// label; 0 where that is no column.
template <typename T, typename S>
void PutRowStats(const KernelCall& call, const VectorKernels<T, S>& v, int64_t rows, int64_t width,
                 const S* x, const int32_t* labels, T* max, T* sum, T* picked) {
  ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const S* row = x + r * width;
      max[r] = v.row_max(row, width);
      sum[r] = v.row_sum_exp(row, max[r], width);
      picked[r] = labels[r] >= 0 && labels[r] < width ? T(Widen(row[labels[r]])) : T(0);
    }
  });
}

// Rows that hold columns [first, first + width) of the vocabulary.
template <typename T>
struct LogitRows {
  int64_t rows, width, first;
  bool ignores;  // rows whose label is negative have no gradient
  T factor;      // of the loss
  T cap = 0;     // the rows are capped logits, and dx of those before; 0: they are not
  const int32_t* labels;
  const T *max, *sum;
};

template <typename T>
T ScaledLoss(double scale, T dloss) {
  return static_cast<T>(scale * static_cast<double>(dloss));
}

// Columns that are turned into the gradient at a time, if their capped logits are read again.
inline constexpr int64_t kCappedColumns = 512;

// dx, which may be x unless it accumulates; where there is a cap it does not. The column of the
// label is computed separately: if a probability near one were rounded before the subtraction, only
// its rounding error would be left.
template <typename T, typename S>
void PutLogitGrads(const KernelCall& call, const VectorKernels<T, S>& v,
                   const VectorKernels<T>& wide, const LogitRows<T>& g, const S* x, S* dx,
                   bool accumulate) {
  ForPieces(call, g.rows, RowPiece(g.width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r * g.width, column = g.labels[r] - g.first;
      if (g.ignores && g.labels[r] < 0) {
        if (!accumulate) std::fill_n(dx + at, g.width, S(0));
        continue;
      }
      const bool here = column >= 0 && column < g.width;
      T x_label = 0, dx_label = 0;
      if (here) {
        x_label = Widen(x[at + column]);
        dx_label = Widen(dx[at + column]);
        wide.row_exp(&x_label, g.max[r], g.factor / g.sum[r], &dx_label, 1, accumulate);
      }
      const bool caps = g.cap != 0;
      for (int64_t c = 0, n = 0; c < g.width; c += n) {
        n = caps ? std::min(kCappedColumns, g.width - c) : g.width;
        S capped[kCappedColumns];
        if (caps) std::copy_n(x + at + c, n, capped);
        v.row_exp(x + at + c, g.max[r], g.factor / g.sum[r], dx + at + c, n, accumulate);
        if (here && column >= c && column < c + n) {
          dx[at + column] = Rounded<S>(dx_label - g.factor);
        }
        if (caps) v.soft_cap_grad(g.cap, dx + at + c, capped, dx + at + c, n, false);
      }
    }
  });
}

}  // namespace oneflow
