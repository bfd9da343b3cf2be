// Loops that norms share: over the columns of a row, by one block, and over the rows of a column,
// in parts whose sums are added in order. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {

// The columns of a row that a thread visits: packs, a block's width apart.
template <int kSize, typename Visit>
__device__ inline void ForColumns(int64_t width, Visit visit) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * kSize;
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * kSize; c < width; c += step) visit(c);
}

// fn(X(), S(), Size<kSize>()) for rows stored as `x` says, and what is normalised as `y` says.
template <typename Fn>
absl::StatusOr<Kernel> ForRows(const KernelSetup& s, DType x, DType y, int64_t width, Fn fn) {
  return ForStoredAs(s, x, y, [&]<typename X, typename S>(X of_x, S of_y) {
    return ForPacks<PackSize<X, S, float>()>(width,
                                             [&](auto size) { return fn(of_x, of_y, size); });
  });
}

// Sums over rows: a block takes kTileColumns columns of a part of the rows, kTileRows at a time.
inline constexpr int kTileColumns = 32, kTileRows = kThreads / kTileColumns;

struct PartSizes {
  int64_t rows, width;
};

// The kSums sums of term(row, index of the element) over the rows of part blockIdx.y, to
// sums[part][kSums][width].
template <int kSums, typename Term>
__global__ void __launch_bounds__(kThreads)
    RowPartsKernel(PartSizes s, int64_t part_rows, float* sums, Term term) {
  __shared__ float tile[kSums][kTileRows][kTileColumns];
  const int lane = LaneIndex(), slot = WarpIndex();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + lane;
  const int64_t begin = blockIdx.y * part_rows;
  const int64_t end = begin + part_rows < s.rows ? begin + part_rows : s.rows;
  Floats<kSums> partial{};
  if (column < s.width) {
    for (int64_t row = begin + slot; row < end; row += kTileRows) {
      const Floats<kSums> terms = term(row, row * s.width + column);
#pragma unroll
      for (int i = 0; i < kSums; ++i) partial.at[i] += terms.at[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) tile[i][slot][lane] = partial.at[i];
  __syncthreads();
  if (slot >= kSums || column >= s.width) return;
  float sum = 0;
  for (int r = 0; r < kTileRows; ++r) sum += tile[slot][r][lane];
  sums[(static_cast<int64_t>(blockIdx.y) * kSums + slot) * s.width + column] = sum;
}

// Where the sums go, each with one number a column; null: nowhere.
template <int kSums>
struct SumOutputs {
  float* at[kSums];
};

template <int kSums>
__global__ void __launch_bounds__(kThreads)
    JoinPartsKernel(int64_t parts, int64_t width, bool accumulate, SumOutputs<kSums> out,
                    const float* sums) {
  const int64_t i = GlobalThread();
  if (i >= kSums * width) return;
  float* to = out.at[0];
#pragma unroll
  for (int k = 1; k < kSums; ++k) to = i >= k * width ? out.at[k] : to;
  if (to == nullptr) return;
  float sum = 0;
  for (int64_t part = 0; part < parts; ++part) sum += sums[part * kSums * width + i];
  Put(to + i % width, sum, accumulate);
}

// The sums of parts first, then the sum of the parts in order. Takes RowParts(rows) * kSums * width
// floats of the call's workspace.
template <int kSums, typename Term>
absl::Status SumOverRows(const KernelCall& call, const char* name, PartSizes s, Term term,
                         SumOutputs<kSums> out) {
  if (s.width == 0) return absl::OkStatus();
  const int64_t parts = RowParts(s.rows);
  float* sums = reinterpret_cast<float*>(call.workspace.data());
  if (parts > 0) {
    LaunchShape shape{MakeGrid(DivideUp(s.width, kTileColumns)), dim3(kThreads)};
    shape.grid.y = static_cast<unsigned>(parts);
    RETURN_IF_ERROR(Launch(name, &RowPartsKernel<kSums, Term>, shape, FindStream(call), s,
                           RowsOfPart(s.rows), sums, term));
  }
  return Launch(name, &JoinPartsKernel<kSums>, ElementsShape(kSums * s.width), FindStream(call),
                parts, s.width, call.accumulate, out, sums);
}

}  // namespace oneflow::cuda
