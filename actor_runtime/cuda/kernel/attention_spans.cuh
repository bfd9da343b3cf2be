// Which keys a query sees. Internal to cuda/kernel.
//
// Each row of queries or of keys has a span: a range of positions, and a document. A query and a
// key see each other if their ranges meet and their documents are the same: the range of a key is
// its position, that of a query the last positions up to its own. So both sides are alike, and one
// text serves kernels that iterate over keys and kernels that iterate over queries.
//
// Nothing assumes that positions or documents are sorted. A block finds out between which rows of
// the other side its own may see any, and skips the tiles before and after them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"

namespace oneflow::cuda {

inline constexpr int kLeastInt = -0x7fffffff - 1, kMostInt = 0x7fffffff;

struct Span {
  bool there;  // the row exists
  int low, high, document;
};

// The spans of the rows of one sample, by number.
struct RowSpans {
  const int32_t *positions, *documents;  // null: rows are positions, in one document
  int64_t reach;                         // positions of a range; 0: all up to its last
  int rows;

  __device__ Span At(int row) const {
    if (row >= rows) return {false, 0, 0, 0};
    const bool given = positions != nullptr;
    const int high = given ? positions[row] : row;
    const int64_t low = int64_t{high} - reach + 1;
    return {true, reach == 0 || low < kLeastInt ? kLeastInt : static_cast<int>(low), high,
            given ? documents[row] : 0};
  }
};

__device__ inline RowSpans QuerySpans(const AttentionSizes& s, const Visibility& v,
                                      int64_t sample) {
  if (v.q_positions == nullptr) return {nullptr, nullptr, v.window, s.t};
  return {v.q_positions + sample * s.t, v.q_documents + sample * s.t, v.window, s.t};
}
__device__ inline RowSpans KeySpans(const AttentionSizes& s, const Visibility& v, int64_t sample) {
  if (v.k_positions == nullptr) return {nullptr, nullptr, 1, s.keys};
  return {v.k_positions + sample * s.keys, v.k_documents + sample * s.keys, 1, s.keys};
}

// True if a pair of a query and a key may be used.
__device__ inline bool See(const Span& a, const Span& b) {
  return a.there && b.there && a.low <= b.high && b.low <= a.high && a.document == b.document;
}

// What the spans of some rows have between them; rows that do not exist do not count.
struct SpansExtent {
  int least_low = kMostInt, most_low = kLeastInt;
  int least_high = kMostInt, most_high = kLeastInt;
  int least_document = kMostInt, most_document = kLeastInt;

  // False if none of the rows sees `p`.
  __device__ bool MaySee(const Span& p) const {
    return p.there && least_low <= p.high && p.low <= most_high && least_document <= p.document &&
           p.document <= most_document;
  }
  // True if all of them see it.
  __device__ bool AllSee(const Span& p) const {
    return p.there && most_low <= p.high && p.low <= least_high && least_document == p.document &&
           p.document == most_document;
  }
};

struct Smaller {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

// Of rows first .. first + kRows - 1. Every lane of the warp gets it.
template <int kRows>
__device__ inline SpansExtent FindExtent(const RowSpans& spans, int first) {
  SpansExtent e;
  for (int i = LaneIndex(); i < kRows; i += kWarp) {
    const Span p = spans.At(first + i);
    if (!p.there) continue;
    e.least_low = Smaller()(e.least_low, p.low);
    e.most_low = Larger()(e.most_low, p.low);
    e.least_high = Smaller()(e.least_high, p.high);
    e.most_high = Larger()(e.most_high, p.high);
    e.least_document = Smaller()(e.least_document, p.document);
    e.most_document = Larger()(e.most_document, p.document);
  }
  e.least_low = WarpReduce(e.least_low, Smaller());
  e.most_low = WarpReduce(e.most_low, Larger());
  e.least_high = WarpReduce(e.least_high, Smaller());
  e.most_high = WarpReduce(e.most_high, Larger());
  e.least_document = WarpReduce(e.least_document, Smaller());
  e.most_document = WarpReduce(e.most_document, Larger());
  return e;
}

// Rows [begin, end) of the other side; begin >= end: none.
struct RowRange {
  int begin, end;
};

// Elements of shared memory that FindRange needs, for a block of so many threads.
constexpr int RangeScratch(int threads) { return 2 * threads / kWarp; }

// Before the first and after the last of these rows of `spans`, none is seen from rows of
// `extent`. Every thread of the block calls it and gets the same; `scratch` is used once.
__device__ inline RowRange FindRange(const SpansExtent& extent, const RowSpans& spans,
                                     int* scratch) {
  if (spans.positions == nullptr) {  // range and row are one number
    const int64_t end = extent.most_high + spans.reach;
    return {extent.least_low > 0 ? extent.least_low : 0,
            spans.reach > 0 && end < spans.rows ? static_cast<int>(end) : spans.rows};
  }
  int from_end = 0, end = 0;  // of the first and the last row that may be seen
#pragma unroll 4
  for (int row = static_cast<int>(threadIdx.x); row < spans.rows;
       row += static_cast<int>(blockDim.x)) {
    if (!extent.MaySee(spans.At(row))) continue;
    from_end = Larger()(from_end, spans.rows - row);
    end = row + 1;
  }
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  from_end = BlockReduce(from_end, Larger(), scratch, Scratch::kFree);
  end = BlockReduce(end, Larger(), scratch + warps, Scratch::kFree);
  return {spans.rows - from_end, end};
}

// How much of a tile's pairs see each other.
enum class Sight { kNone, kSome, kAll };

// Of rows first .. first + kRows - 1 of `spans`, from rows of `extent`: kSome also where it is not
// known. Every lane of the warp calls it and gets the same.
template <int kRows>
__device__ inline Sight FindSight(const SpansExtent& extent, const RowSpans& spans, int first) {
  bool any = false, all = true;
#pragma unroll
  for (int i = 0; i < kRows; i += kWarp) {
    const Span p = spans.At(first + i + LaneIndex());
    any = any || extent.MaySee(p);
    all = all && extent.AllSee(p);
  }
  static_assert(kRows % kWarp == 0);
  const bool any_lane = __any_sync(kAllLanes, any), all_lanes = __all_sync(kAllLanes, all);
  return all_lanes ? Sight::kAll : any_lane ? Sight::kSome : Sight::kNone;
}

}  // namespace oneflow::cuda
