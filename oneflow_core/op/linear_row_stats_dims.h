// Sizes of linear_row_stats and its gradient on one device: the rows of the logits that are in the
// workspace at once. For definitions and kernels, of all devices.
//
//   const LogitPieces p = FindLogitPieces(op);   // op.in: x[..., H], w[V, H], ...
//   for (int64_t row = 0; row < p.rows; row += p.of_piece) ...
#pragma once

#include <cstdint>

#include "oneflow_core/op/product_spec.h"

namespace oneflow {

// A piece is a multiple of so many rows. So it begins at a multiple of 64 bytes in tensors of every
// type and width, as products on GPUs want.
inline constexpr int64_t kLogitRows = 32;

// The default number of rows of logits of a piece, for rows of x of `width` elements. Its logits
// take a quarter of the bytes of w's gradient, which is f32. With fewer rows, reading and writing
// that gradient, once a piece, takes its time; with more, the workspace grows.
int64_t UsualLogitRows(int64_t width, int64_t element_bytes);

// x[rows, width] and w[vocab, width]; `of_piece` rows of logits are in the workspace at once, fewer
// in the last piece.
struct LogitPieces {
  int64_t rows = 0, width = 0, vocab = 0, of_piece = 0;
  int64_t logit_bytes = 0;  // of a piece, a multiple of 64

  bool Empty() const { return rows == 0; }
};

// Inputs 0 and 1 of `op` are x and w. Its attribute `pieces` is the most pieces; 0: the number that
// UsualLogitRows gives.
LogitPieces FindLogitPieces(const LocalOp& op);

// Bytes for any of the products of a piece on a CPU, for any types and any number of threads.
int64_t LogitProductWorkspace(const LogitPieces& pieces);

}  // namespace oneflow
