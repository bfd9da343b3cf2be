// Products of experts' tokens with their weights, for expert_linear.cu and expert_linear_bf16.cu:
// sizes, and which tile of the rows a block computes. Internal to them.
//
// How many tokens an expert has is on the device alone, so grids have a block for every tile that
// there may be. Blocks find their tiles in `offsets`; those of no tile return.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/queue_map.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow::cuda {

struct ExpertSizes {
  ExpertQueues queues;
  int64_t width = 0, columns = 0;  // of tokens, and of products
};

// A part of the rows of one expert's tokens in a queue.
struct RowTile {
  int64_t expert;        // of the piece; -1: slots that no token takes
  int64_t begin, count;  // rows; none if count <= 0
};

// The most tiles of a queue: those of its experts, and of the slots behind the last token.
template <int kRows>
__host__ __device__ constexpr int64_t CountTiles(const ExpertQueues& q) {
  return q.slots / kRows + q.of_group + 1;
}

// Tile `tile` of a queue: expert by expert, then free slots. All lanes of a warp call it together.
template <int kRows>
__device__ inline RowTile FindTile(const ExpertQueues& q, const int32_t* offsets, int64_t queue,
                                   int tile) {
  const auto of_group = static_cast<int>(q.of_group);
  for (int first = 0; first < of_group; first += kWarp) {
    const int e = first + LaneIndex();
    const ExpertQueues::Rows rows =
        e < of_group ? q.FindInQueue(offsets, queue, e) : ExpertQueues::Rows{0, 0};
    const int tiles = static_cast<int>((rows.size() + kRows - 1) / kRows);
    int end = tiles;  // of the lane's tiles
    for (int step = 1; step < kWarp; step *= 2) {
      const int before = __shfl_up_sync(kAllLanes, end, static_cast<unsigned>(step));
      if (LaneIndex() >= step) end += before;
    }
    const int lane = __popc(__ballot_sync(kAllLanes, end <= tile));
    const int all = __shfl_sync(kAllLanes, end, kWarp - 1);
    if (lane < kWarp) {
      const int64_t at = tile - __shfl_sync(kAllLanes, end - tiles, lane);
      const int64_t begin = __shfl_sync(kAllLanes, rows.begin, lane) + at * kRows;
      const int64_t rest = __shfl_sync(kAllLanes, rows.end, lane) - begin;
      return {queue / q.runs * of_group + first + lane, begin, rest < kRows ? rest : kRows};
    }
    tile -= all;
  }
  const int64_t begin = q.FindInQueue(offsets, queue, of_group - 1).end + tile * int64_t{kRows};
  const int64_t rest = (queue + 1) * q.slots - begin;
  return {-1, begin, rest < kRows ? rest : kRows};
}

// expert_linear_bf16.cu. They need widths and columns that are multiples of 8. `bias`[E, F]: null
// if there is none.
absl::Status AllowBf16ExpertLinear();
absl::Status LaunchBf16ExpertLinear(const ExpertSizes& s, bool transposed, cudaStream_t stream,
                                    Bf16* out, const Bf16* y, const Bf16* w, const int32_t* offsets,
                                    const float* bias);
absl::Status LaunchBf16ExpertGradWeight(const ExpertSizes& s, bool accumulate, cudaStream_t stream,
                                        float* dw, const Bf16* y, const Bf16* dout,
                                        const int32_t* offsets);

}  // namespace oneflow::cuda
