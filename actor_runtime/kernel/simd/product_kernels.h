// ProductKernels: the inner loops of a matrix product, compiled once for each instruction set:
// packing of operands and the product of packed blocks. Serial: no threads, no allocation. gemm.h
// splits a product into blocks.
//
// Operands are packed in panels of `tile_rows` (of a) or `tile_columns` (of b) lanes: word after
// word along k, in each word one entry for each lane, zeros for missing lanes. A word holds
// `word_depth` elements of a lane: one f32 or f64, or a pair of bf16 (the second one zero if k is
// odd).
//
// Guarantee (law 6): an element of the product is one chain of multiply-adds in the order of k, at
// every position in a tile. bf16 factors are exact, their sums are f32. Between instruction sets
// the last bits may differ: AVX512-BF16 takes denormals as zero and chooses the order within a
// pair.
//
//   const ProductKernels<Bf16>& p = *ProductKernelsFor<Bf16>(BestIsa());
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "actor_runtime/kernel/simd/isa.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {

// A matrix by strides: element (r, c) is data[r * row + c * col]; one of the strides is 1.
template <typename T>
struct Strided {
  const T* data;
  int64_t row, col;
  Strided Transposed() const { return {data, col, row}; }
  Strided At(int64_t r, int64_t c) const { return {data + r * row + c * col, row, col}; }
};

// The type in which sums of products of T are kept.
template <typename T>
using SumType = std::conditional_t<std::is_same_v<T, Bf16>, float, T>;

// The destination of the product of two packed blocks. Rows have unit column stride.
template <typename Sum>
struct ProductTarget {
  Sum* sums;  // may be null where nothing is added and the result goes to `rounded`
  int64_t sums_row;
  bool add;         // to what `sums` holds, instead of overwriting it
  const Sum* bias;  // null, or one element for each column, added last
  Bf16* rounded;    // not null: the result goes here, rounded, and `sums` is only read
  int64_t rounded_row;
};

// A block of an operand as `multiply` reads it: word w of lane l of panel p is data[p * panel + l *
// lane + w * word], all counted in words. A packed block has lane = 1 and word = lanes of a panel;
// an operand with this layout in memory need not be packed.
struct Panels {
  const std::byte* data;
  int64_t panel, lane, word;
};

// T is the type of the factors: float, double or Bf16.
template <typename T>
struct ProductKernels {
  // Packs element (lane, k) of `from`; `packed` holds full panels.
  using Pack = void (*)(Strided<T> from, int64_t lanes, int64_t k, std::byte* packed);

  int tile_rows, tile_columns;
  int column_step;  // columns are read by so many
  int word_depth;   // elements
  int word_bytes;
  Pack pack_a, pack_b;
  // The product of a block a[rows, words] and a block b[words, columns]. For a, lane or word is 1;
  // for b, lane is 1. Full panels of a are read, and full steps of columns of b.
  void (*multiply)(const Panels& a, const Panels& b, int64_t rows, int64_t columns, int64_t words,
                   const ProductTarget<SumType<T>>& to);
  // The product of a[rows, k] and b[k, columns], `rows` at most kFewRows, both read in place: much
  // faster than packing, which reads b twice and writes it. The same bits.
  void (*multiply_few)(Strided<T> a, Strided<T> b, int64_t rows, int64_t columns, int64_t k,
                       const ProductTarget<SumType<T>>& to);
};

inline constexpr int64_t kFewRows = 8;

// The table of one instruction set; nullptr if this processor does not have it.
template <typename T>
const ProductKernels<T>* ProductKernelsFor(Isa isa);

}  // namespace oneflow
