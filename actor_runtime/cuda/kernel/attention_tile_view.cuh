// What the rows of a block see of the other side, for attention.cu. Internal to it.
//
//   TileView<kBySpan, kRowsAreKeys> view(s, visibility, sample, first_row, memory);
//   for (int tile = view.begin(); tile < view.end(); tile = view.Next(tile)) {
//     view.LookAt(tile);
//     const auto row = view.Row(i);
//     if (view.Sees(row, j)) ...       // row i and column j of this thread
#pragma once

#include <type_traits>

#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/attention_spans.cuh"
#include "actor_runtime/cuda/kernel/attention_tile.cuh"

namespace oneflow::cuda {

// The pairs that see each other, of a block's rows and tiles of the other side: of rows that are
// queries and columns that are keys, or with kRowsAreKeys the reverse. Causal attention, without
// spans, needs fewer registers.
template <bool kBySpan, bool kRowsAreKeys>
class TileView {
 public:
  // Every thread of the block calls it, and gets the same tiles.
  __device__ TileView(const AttentionSizes& s, const Visibility& visibility, int64_t sample,
                      int first_row, TileMemory& memory)
      : s_(s),
        visibility_(visibility),
        parts_(memory.parts),
        sample_(static_cast<int>(sample)),
        first_row_(first_row) {
    if constexpr (kBySpan) {
      memory.parts.Find(FindExtent<kTile>(Spans(kRowsAreKeys), first_row), Spans(!kRowsAreKeys));
      end_ = kRowsAreKeys ? s.t : s.keys;
      begin_ = Next(-kTile);
    } else {
      begin_ = kRowsAreKeys ? first_row : 0;
      end_ = kRowsAreKeys ? s.t : first_row + 1;
    }
  }

  // Tiles begin at begin(), Next(begin()), ... below end(). Of others the rows see nothing.
  __device__ int begin() const { return begin_; }
  __device__ int end() const { return end_; }
  __device__ int Next(int tile) const {
    return kBySpan ? parts_.Next<kTile>(tile + kTile, end_) : tile + kTile;
  }

  // From now on Sees() is about this tile.
  __device__ void LookAt(int tile) {
    first_column_ = tile;
    if constexpr (kBySpan) {
      const RowSpans columns = Spans(!kRowsAreKeys);
#pragma unroll
      for (int j = 0; j < kEach; ++j) column_[j] = columns.At(Column(j));
    }
  }
  // Row i of this thread, for Sees(): its span or its number.
  __device__ auto Row(int i) const {
    const int row = first_row_ + TileY() * kEach + i;
    if constexpr (kBySpan) {
      return Spans(kRowsAreKeys).At(row);
    } else {
      return row;
    }
  }
  // Whether a row and column j of this thread see each other. Without spans, keys that do not
  // exist are after all queries that do.
  template <typename R>
  __device__ bool Sees(const R& row, int j) const {
    if constexpr (kBySpan) {
      return See(row, column_[j]);
    } else {
      return kRowsAreKeys ? row <= Column(j) : Column(j) <= row;
    }
  }

 private:
  struct Nothing {};

  __device__ RowSpans Spans(bool of_keys) const {
    return of_keys ? KeySpans(s_, visibility_, sample_) : QuerySpans(s_, visibility_, sample_);
  }
  __device__ int Column(int j) const { return first_column_ + TileX() + j * kSide; }

  const AttentionSizes& s_;
  const Visibility& visibility_;
  const SeenParts& parts_;
  int sample_, first_row_, first_column_ = 0, begin_, end_;
  std::conditional_t<kBySpan, Span, Nothing> column_[kEach];
};

}  // namespace oneflow::cuda
