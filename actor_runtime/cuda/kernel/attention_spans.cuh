// Which keys a query sees. Internal to cuda/kernel.
//
// Each row of queries or of keys has a span: a range of positions, and a document. A query and a
// key see each other if their ranges meet and their documents are the same: the range of a key is
// its position, that of a query the last positions up to its own. So both sides are alike, and one
// text serves kernels that iterate over keys and kernels that iterate over queries.
//
// Nothing assumes that positions or documents are sorted. A block finds out of which parts of the
// other side its rows may see any, and skips the tiles in the others, wherever they are.
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
  const int32_t *positions, *documents;  // null: rows are positions; all are in one document
  int64_t reach;                         // positions of a range; 0: all up to its last
  int rows;

  __device__ Span At(int row) const {
    if (row >= rows) return {false, 0, 0, 0};
    const int high = positions != nullptr ? positions[row] : row;
    const int64_t low = int64_t{high} - reach + 1;
    return {true, reach == 0 || low < kLeastInt ? kLeastInt : static_cast<int>(low), high,
            documents != nullptr ? documents[row] : 0};
  }
};

__device__ inline const int32_t* OfSample(const int32_t* numbers, int64_t sample, int rows) {
  return numbers == nullptr ? nullptr : numbers + sample * rows;
}
__device__ inline RowSpans QuerySpans(const AttentionSizes& s, const Visibility& v,
                                      int64_t sample) {
  return {OfSample(v.q_positions, sample, s.t), OfSample(v.q_documents, sample, s.t), v.window,
          s.t};
}
__device__ inline RowSpans KeySpans(const AttentionSizes& s, const Visibility& v, int64_t sample) {
  return {OfSample(v.k_positions, sample, s.keys), OfSample(v.k_documents, sample, s.keys), 1,
          s.keys};
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

// The parts of the other side of which the rows of a block may see any; in shared memory. A part is
// of 64 rows, or twice as many as often as it takes for kParts of them.
struct SeenParts {
  static constexpr int kParts = 512, kAtOnce = 4;
  unsigned char hidden[kParts];

  __device__ static int Part(int row, int rows) {
    int shift = 6;
    while ((rows - 1) >> shift >= kParts) ++shift;
    return row >> shift;
  }

  // From rows of `extent`. Every thread of the block calls it, once. A warp looks at several parts
  // at a time, whose loads do not wait for each other.
  __device__ void Find(const SpansExtent& extent, const RowSpans& spans) {
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    int size = 64;
    while (Part(size, spans.rows) == 0) size *= 2;
    for (int part = WarpIndex() * kAtOnce; part * size < spans.rows; part += warps * kAtOnce) {
      bool any[kAtOnce] = {};
      for (int i = LaneIndex(); i < size; i += kWarp) {
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          any[j] |= extent.MaySee(spans.At((part + j) * size + i));
        }
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const bool any_lane = __any_sync(kAllLanes, any[j]);
        if (LaneIndex() == 0) hidden[part + j] = !any_lane;
      }
    }
    __syncthreads();
  }

  // The first of rows `tile`, tile + kStep, ... below `rows` whose part may be seen: a tile of
  // kStep rows, which divides 64, has no other. After the last it is `rows` or more.
  template <int kStep>
  __device__ int Next(int tile, int rows) const {
    static_assert(64 % kStep == 0);
    while (tile < rows && hidden[Part(tile, rows)]) tile += kStep;
    return tile;
  }
};

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
