// Scratch memory of CUDA kernels: how they cut their work up, and the bytes that follow. Kernels
// cut their workspace up by these formulas, and the plan's bytes (workspace.h) come from them.
//
// It is not an allocator. The formulas hold for every type and every GPU: they fix the order of
// sums, so that it is a function of shapes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace oneflow {

// Most of what cuBLASLt may take for a product.
inline constexpr int64_t kLibraryProductWorkspace = int64_t{32} << 20;

// The sum over the rows of a matrix is made of the sums of so many pieces of them, f32 each: enough
// to keep a GPU busy, and at least 128 rows a piece.
inline int64_t ColumnSumPieces(int64_t rows) { return std::clamp<int64_t>(rows / 128, 1, 64); }

// Bytes of these sums; one piece needs none.
inline int64_t ColumnSumsWorkspace(int64_t rows, int64_t width) {
  const int64_t pieces = ColumnSumPieces(rows);
  return pieces == 1 ? 0 : pieces * width * 4;
}

}  // namespace oneflow
