// Scratch memory of our CUDA kernels: the number of parts into which sums are split, and the bytes
// that follow. Kernels split their workspace up by these formulas, and the plan's bytes
// (workspace.h) come from them.
//
// It is not an allocator. The content of a part depends on shapes alone, so it fixes the order of
// sums: changing it changes bits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace oneflow {

// The most scratch that cuBLASLt may take for a product.
inline constexpr int64_t kLibraryProductScratch = int64_t{32} << 20;

// The most parts of consecutive rows in sums over the rows of a matrix.
inline constexpr int64_t kMostRowParts = 128;
constexpr int64_t RowsOfPart(int64_t rows) {
  return std::max<int64_t>(64, (rows + kMostRowParts - 1) / kMostRowParts);
}
constexpr int64_t RowParts(int64_t rows) {
  return (rows + RowsOfPart(rows) - 1) / RowsOfPart(rows);
}
// Bytes for two sums of each column in f32: of the gain's and of the bias's gradient.
constexpr int64_t LayerNormGradWeightScratch(int64_t rows, int64_t width) {
  return RowParts(rows) * 2 * width * 4;
}
// Bytes for a sum of each column in f32: of the gain's gradient.
constexpr int64_t RmsNormGradWeightScratch(int64_t rows, int64_t width) {
  return RowParts(rows) * width * 4;
}

// Bytes for a sum of each column in f32: of a bias's gradient. One part needs none.
constexpr int64_t ColumnSumsScratch(int64_t rows, int64_t width) {
  return RowParts(rows) <= 1 ? 0 : RowParts(rows) * width * 4;
}

// Elements of a block in sums of squares; each block has one sum in f64.
inline constexpr int64_t kSquaresBlock = 4096;
constexpr int64_t SumSquaresScratch(int64_t elements) {
  return (elements + kSquaresBlock - 1) / kSquaresBlock * 8;
}

// A row is short up to this length. Sums of squares for each index of a dimension, with `inner`
// elements behind it, sum short rows over parts of the `outer` rows before it, in f64.
inline constexpr int64_t kShortRow = 32;
constexpr int64_t SumSquaresApartScratch(int64_t outer, int64_t n, int64_t inner) {
  return inner >= kShortRow || RowParts(outer) <= 1 ? 0 : RowParts(outer) * n * 8;
}

// Bytes for the gradient of a router that is balanced: the choices of each expert in each run, in
// i32.
constexpr int64_t RouteGradScratch(int64_t runs, int64_t experts) { return runs * experts * 4; }

// Choices of a piece in counts of experts' choices: each piece counts those of each expert, and
// those without a slot, in i32.
inline constexpr int64_t kChoicesOfPiece = 4096;
constexpr int64_t CountChoicesScratch(int64_t choices, int64_t experts) {
  return (choices + kChoicesOfPiece - 1) / kChoicesOfPiece * (experts + 1) * 4;
}

// Bytes for the gradient of attention: Σ out dout of each row of a head, in f32.
constexpr int64_t AttentionGradScratch(int64_t rows) { return rows * 4; }

}  // namespace oneflow
