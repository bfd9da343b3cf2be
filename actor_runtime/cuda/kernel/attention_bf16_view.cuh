// What the rows of a block see of the other side, for attention_bf16.cu. Internal to it.
//
// A block has 64 kM rows, a warp 16 kM of them, and iterates over tiles of kStep rows of the other
// side: over keys, or with kRowsAreKeys over queries.
//
//   const View<kBySpan, kRowsAreKeys, kM, kStep> view(s, visibility, sample, first, mine, scratch);
//   for (int tile = view.begin; tile < view.end; tile = view.Next(tile)) {
//     const Sight sight = view.At(tile);
//     if (sight == Sight::kSome) view.Hide(tile, scores);
//
// Causal attention is a view of its own, which knows all from the numbers of rows.
#pragma once

#include "actor_runtime/cuda/kernel/attention_bf16_tile.cuh"
#include "actor_runtime/cuda/kernel/attention_spans.cuh"

namespace oneflow::cuda {

// Shared memory of a view of spans. All that it keeps is there, because registers are few.
struct ViewScratch {
  SeenParts parts;
  struct {
    SpansExtent extent;  // of the warp's rows
    int sample;
  } of_warp[kBlockThreads / kWarp];
};

template <bool kBySpan, bool kRowsAreKeys, int kM, int kStep>
struct View;

template <bool kRowsAreKeys, int kM, int kStep>
struct View<false, kRowsAreKeys, kM, kStep> {
  int mine;        // first row of this warp
  int begin, end;  // tiles begin at begin, Next(begin), ... below end

  __device__ View(const AttentionSizes& s, const Visibility&, int, int first, int mine,
                  ViewScratch*)
      : mine(mine) {
    constexpr int kRows = 64 * kM;
    begin = kRowsAreKeys ? first / kStep * kStep : 0;
    end = kRowsAreKeys || first + kRows >= s.t ? s.t : first + kRows;
  }

  __device__ int Next(int tile) const { return tile + kStep; }

  // Of the warp's rows and a tile.
  __device__ Sight At(int tile) const {
    if constexpr (kRowsAreKeys) {
      if (tile + kStep <= mine) return Sight::kNone;
      return tile < mine + 16 * kM ? Sight::kSome : Sight::kAll;
    }
    if (tile >= mine + 16 * kM) return Sight::kNone;
    return tile + kStep > mine ? Sight::kSome : Sight::kAll;
  }

  // Scores of pairs that do not see each other become -infinity.
  __device__ void Hide(int tile, Product<kM, kStep / 8>& scores) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = mine + RowIn(m, i), c = tile + ColumnIn(n, i);
          if (kRowsAreKeys ? r > c : c > r) scores.at[m][n][i] = -INFINITY;
        }
      }
    }
  }
};

template <bool kRowsAreKeys, int kM, int kStep>
struct View<true, kRowsAreKeys, kM, kStep> {
  const AttentionSizes& s;
  const Visibility& visibility;
  int mine, begin, end;
  ViewScratch* scratch;

  // Every thread of the block calls it, and gets the same tiles: those of the parts of which the
  // block's rows may see any.
  __device__ View(const AttentionSizes& s, const Visibility& visibility, int sample, int first,
                  int mine, ViewScratch* scratch)
      : s(s), visibility(visibility), mine(mine), scratch(scratch) {
    const RowSpans rows = Rows(sample);
    const SpansExtent extent = FindExtent<16 * kM>(rows, mine);
    if (LaneIndex() == 0) scratch->of_warp[WarpIndex()] = {extent, sample};
    scratch->parts.Find(FindExtent<64 * kM>(rows, first), Columns(sample));
    end = kRowsAreKeys ? s.t : s.keys;
    begin = Next(-kStep);
  }

  __device__ int Next(int tile) const { return scratch->parts.Next<kStep>(tile + kStep, end); }

  __device__ RowSpans Rows(int sample) const {
    return kRowsAreKeys ? KeySpans(s, visibility, sample) : QuerySpans(s, visibility, sample);
  }
  __device__ RowSpans Columns(int sample) const {
    return kRowsAreKeys ? QuerySpans(s, visibility, sample) : KeySpans(s, visibility, sample);
  }

  __device__ Sight At(int tile) const {
    const auto& warp = scratch->of_warp[WarpIndex()];
    return FindSight<kStep>(warp.extent, Columns(warp.sample), tile);
  }

  __device__ void Hide(int tile, Product<kM, kStep / 8>& scores) const {
    const int sample = scratch->of_warp[WarpIndex()].sample;
    const RowSpans rows = Rows(sample), columns = Columns(sample);
    Span row[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) row[m][half] = rows.At(mine + RowIn(m, 2 * half));
    }
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Span column = columns.At(tile + ColumnIn(n, i));
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if (!See(row[m][half], column)) scores.at[m][n][2 * half + i] = -INFINITY;
          }
        }
      }
    }
  }
};

}  // namespace oneflow::cuda
