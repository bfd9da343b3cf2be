// Products of each expert's tokens with its weight, plus its bias. Those of bf16 are in
// expert_linear_bf16.cu; the kernels here serve f32, and widths that those cannot: a block of 16 x
// 16 threads computes a tile of 64 x 64, in f32, kDepth terms of the sums at a time.
#include <type_traits>

#include "actor_runtime/cuda/kernel/expert_linear.cuh"
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kTile = 64;             // rows and columns
constexpr int kSide = 16;             // threads of a side
constexpr int kEach = kTile / kSide;  // rows and columns of a thread
constexpr int kDepth = 32;            // terms at a time
constexpr int kStride = kTile + 4;    // of rows in shared memory
static_assert(kSide * kSide == kThreads);

// One side of a product: `outer` rows (or columns of the right one), and `depth` terms of each.
template <typename S>
struct Side {
  const S* data;
  int64_t row;  // elements from one row in memory to the next
  int64_t outer, depth;
};

struct alignas(16) TileMemory {
  float left[kDepth][kStride], right[kDepth][kStride];
};

// Terms first, first + 1, ... of a side; 0 beyond its elements. Rows in memory are terms if
// `kRowsAreTerms`, else they are rows of the side. A warp reads full sectors, and writes to as many
// banks as it has lanes. A thread copies the same column of every kApart-th row.
template <bool kRowsAreTerms, typename S>
__device__ inline void LoadSide(const Side<S>& side, int64_t first, float (*to)[kStride]) {
  constexpr int kRows = kRowsAreTerms ? kDepth : kTile, kColumns = kRowsAreTerms ? kTile : kDepth;
  constexpr int kLanes = kRowsAreTerms ? kWarp : 8;  // in a row
  constexpr int kWarpsOfRow = kColumns / kLanes;
  constexpr int kApart = kThreads / kWarp / kWarpsOfRow * (kWarp / kLanes);
  const int c = WarpIndex() % kWarpsOfRow * kLanes + LaneIndex() % kLanes;
  const int r = WarpIndex() / kWarpsOfRow * (kWarp / kLanes) + LaneIndex() / kLanes;
  const auto outer = static_cast<int>(min(side.outer, int64_t{kTile}));
  const auto depth = static_cast<int>(min(side.depth - first, int64_t{kDepth}));
  const int rows = kRowsAreTerms ? depth : outer, columns = kRowsAreTerms ? outer : depth;
  const S* from = side.data + (kRowsAreTerms ? first * side.row : first) + r * side.row + c;
#pragma unroll
  for (int i = 0; i < kRows; i += kApart) {
    const float value = c < columns && r + i < rows ? Wide(*from) : 0.0f;
    to[kRowsAreTerms ? r + i : c][kRowsAreTerms ? c : r + i] = value;
    from += kApart * side.row;
  }
}

struct Sums {
  float at[kEach][kEach];
};

// The rows and columns of a thread: kEach that are adjacent.
__device__ inline int FirstRow() { return static_cast<int>(threadIdx.x) / kSide * kEach; }
__device__ inline int FirstColumn() { return static_cast<int>(threadIdx.x) % kSide * kEach; }

template <bool kLeftRowsAreTerms, bool kRightRowsAreTerms, typename S>
__device__ inline void AddProduct(const Side<S>& left, const Side<S>& right, TileMemory& memory,
                                  Sums& sums) {
  for (int64_t first = 0; first < left.depth; first += kDepth) {
    __syncthreads();  // The last terms have been read.
    LoadSide<kLeftRowsAreTerms>(left, first, memory.left);
    LoadSide<kRightRowsAreTerms>(right, first, memory.right);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kDepth; ++k) {
      const Floats<kEach> a = LoadPack<kEach>(&memory.left[k][FirstRow()]);
      const Floats<kEach> b = LoadPack<kEach>(&memory.right[k][FirstColumn()]);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums.at[i][j] += a.at[i] * b.at[j];
      }
    }
  }
}

// to[rows, columns] (+)= sums, rows `row` elements apart.
template <typename C>
__device__ inline void PutTile(C* to, int64_t row, int64_t rows, int64_t columns, const Sums& sums,
                               bool accumulate) {
  const int c = FirstColumn();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int r = FirstRow() + i;
    if (r >= rows) return;
    if (row % kEach == 0 && c + kEach <= columns) {
      Floats<kEach> values;
#pragma unroll
      for (int j = 0; j < kEach; ++j) values.at[j] = sums.at[i][j];
      PutPack<kEach>(to + r * row + c, values, accumulate);
      continue;
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (c + j < columns) Put(to + r * row + c + j, sums.at[i][j], accumulate);
    }
  }
}

// Adds bias[columns] to each row.
__device__ inline void AddBias(const float* bias, int64_t columns, Sums& sums) {
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const float value = FirstColumn() + j < columns ? bias[FirstColumn() + j] : 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sums.at[i][j] += value;
  }
}

// A block is a tile of rows and one of columns. `bias`: null if there is none.
template <bool kTransposed, typename S>
__global__ void __launch_bounds__(kThreads, 2)
    ExpertLinearKernel(ExpertSizes s, S* out, const S* y, const S* w, const int32_t* offsets,
                       const float* bias) {
  __shared__ TileMemory memory;
  const int64_t column_tiles = (s.columns + kTile - 1) / kTile;
  const int64_t tiles = CountTiles<kTile>(s.queues), block = blockIdx.x / column_tiles;
  const RowTile tile =
      FindTile<kTile>(s.queues, offsets, block / tiles, static_cast<int>(block % tiles));
  if (tile.count <= 0) return;
  const int64_t column = blockIdx.x % column_tiles * kTile, columns = s.columns - column;
  Sums sums{};
  if (tile.expert >= 0) {
    const Side<S> left{y + tile.begin * s.width, s.width, tile.count, s.width};
    w += tile.expert * s.width * s.columns + column * (kTransposed ? s.width : 1);
    const Side<S> right{w, kTransposed ? s.width : s.columns, columns, s.width};
    AddProduct<false, !kTransposed>(left, right, memory, sums);
    if (bias != nullptr) AddBias(bias + tile.expert * s.columns + column, columns, sums);
  }
  PutTile(out + tile.begin * s.columns + column, s.columns, tile.count, columns, sums,
          /*accumulate=*/false);
}

// A block is a tile of an expert's gradient; it sums the rows of runs in their order.
template <typename S>
__global__ void __launch_bounds__(kThreads, 2)
    ExpertGradWeightKernel(ExpertSizes s, bool accumulate, float* dw, const S* y, const S* dout,
                           const int32_t* offsets) {
  __shared__ TileMemory memory;
  const int64_t column_tiles = (s.columns + kTile - 1) / kTile;
  const int64_t row_tiles = (s.width + kTile - 1) / kTile, block = blockIdx.x / column_tiles;
  const int64_t column = blockIdx.x % column_tiles * kTile, row = block % row_tiles * kTile;
  const int64_t e = block / row_tiles, queue = s.queues.FirstQueue(e), at = e % s.queues.of_group;
  Sums sums{};
  for (int64_t run = 0; run < s.queues.runs; ++run) {
    const ExpertQueues::Rows rows = s.queues.FindInQueue(offsets, queue + run, at);
    const Side<S> left{y + rows.begin * s.width + row, s.width, s.width - row, rows.size()};
    const Side<S> right{dout + rows.begin * s.columns + column, s.columns, s.columns - column,
                        rows.size()};
    AddProduct<true, true>(left, right, memory, sums);
  }
  PutTile(dw + (e * s.width + row) * s.columns + column, s.columns, s.width - row,
          s.columns - column, sums, accumulate);
}

// dbias[expert, column] (+)= the sums of its rows. A block is kWarp columns of an expert; a warp of
// it sums every eighth row, of runs in their order.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    ExpertGradBiasKernel(ExpertSizes s, bool accumulate, float* dbias, const S* dout,
                         const int32_t* offsets) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ float of_warp[kWarps][kWarp];
  const int64_t column_tiles = (s.columns + kWarp - 1) / kWarp, e = blockIdx.x / column_tiles;
  const int64_t column = blockIdx.x % column_tiles * kWarp + LaneIndex();
  const int64_t queue = s.queues.FirstQueue(e), at = e % s.queues.of_group;
  float sum = 0;
  for (int64_t run = 0; run < s.queues.runs; ++run) {
    const ExpertQueues::Rows rows = s.queues.FindInQueue(offsets, queue + run, at);
    if (column >= s.columns) break;
    for (int64_t row = rows.begin + WarpIndex(); row < rows.end; row += kWarps) {
      sum += Wide(dout[row * s.columns + column]);
    }
  }
  of_warp[WarpIndex()][LaneIndex()] = sum;
  __syncthreads();
  if (WarpIndex() != 0 || column >= s.columns) return;
  for (int w = 1; w < kWarps; ++w) sum += of_warp[w][LaneIndex()];
  Put(dbias + e * s.columns + column, sum, accumulate);
}

bool CanMultiplyBf16(const ExpertSizes& s) { return s.width % 8 == 0 && s.columns % 8 == 0; }

absl::StatusOr<Kernel> MakeExpertLinear(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const ExpertQueues queues, FindQueues(s, In(s, 0), In(s, 2), In(s, 1)));
  const ExpertSizes sizes{queues, LastDim(In(s, 0)), LastDim(s.out[0])};
  const bool transposed = BoolAttr(s, "transpose_w"), biased = s.in.size() > 3;
  const int64_t all = queues.groups * queues.runs, size = Elements(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) -> absl::StatusOr<Kernel> {
    if constexpr (std::is_same_v<S, Bf16>) {
      if (CanMultiplyBf16(sizes)) {
        RETURN_IF_ERROR(AllowBf16ExpertLinear());
        return Kernel([=](const KernelCall& call) {
          if (size == 0) return absl::OkStatus();
          return LaunchBf16ExpertLinear(sizes, transposed, FindStream(call), call.output<S>(0),
                                        call.input<S>(0), call.input<S>(1), call.input<int32_t>(2),
                                        biased ? call.input<float>(3) : nullptr);
        });
      }
    }
    return Kernel([=](const KernelCall& call) {
      if (size == 0) return absl::OkStatus();
      const int64_t blocks = all * CountTiles<kTile>(queues) * DivideUp(sizes.columns, kTile);
      const auto kernel = transposed ? &ExpertLinearKernel<true, S> : &ExpertLinearKernel<false, S>;
      return Launch("expert_linear", kernel, {MakeGrid(blocks), dim3(kThreads)}, FindStream(call),
                    sizes, call.output<S>(0), call.input<S>(0), call.input<S>(1),
                    call.input<int32_t>(2), biased ? call.input<float>(3) : nullptr);
    });
  });
}

absl::StatusOr<Kernel> MakeExpertLinearGradWeight(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  ASSIGN_OR_RETURN(const ExpertQueues queues, FindQueues(s, In(s, 0), In(s, 2), s.out[0]));
  const ExpertSizes sizes{queues, LastDim(In(s, 0)), LastDim(In(s, 1))};
  const int64_t size = Elements(s.out[0]);
  return ForStoredAs(s, In(s, 0).dtype, [&]<typename S>(S) -> absl::StatusOr<Kernel> {
    if constexpr (std::is_same_v<S, Bf16>) {
      if (CanMultiplyBf16(sizes)) {
        RETURN_IF_ERROR(AllowBf16ExpertLinear());
        return Kernel([=](const KernelCall& call) {
          if (size == 0) return absl::OkStatus();
          return LaunchBf16ExpertGradWeight(sizes, call.accumulate, FindStream(call),
                                            call.output<float>(0), call.input<S>(0),
                                            call.input<S>(1), call.input<int32_t>(2));
        });
      }
    }
    return Kernel([=](const KernelCall& call) {
      if (size == 0) return absl::OkStatus();
      const int64_t blocks =
          queues.experts() * DivideUp(sizes.width, kTile) * DivideUp(sizes.columns, kTile);
      return Launch("expert_linear_grad_weight", &ExpertGradWeightKernel<S>,
                    {MakeGrid(blocks), dim3(kThreads)}, FindStream(call), sizes, call.accumulate,
                    call.output<float>(0), call.input<S>(0), call.input<S>(1),
                    call.input<int32_t>(2));
    });
  });
}

absl::StatusOr<Kernel> MakeExpertLinearGradBias(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  ASSIGN_OR_RETURN(const ExpertQueues queues, FindQueues(s, In(s, 0), In(s, 1), s.out[0]));
  const ExpertSizes sizes{queues, 0, LastDim(In(s, 0))};
  return ForStoredAs(s, In(s, 0).dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) {
      const int64_t blocks = queues.experts() * DivideUp(sizes.columns, kWarp);
      if (blocks == 0) return absl::OkStatus();
      return Launch("expert_linear_grad_bias", &ExpertGradBiasKernel<S>,
                    {MakeGrid(blocks), dim3(kThreads)}, FindStream(call), sizes, call.accumulate,
                    call.output<float>(0), call.input<S>(0), call.input<int32_t>(1));
    });
  });
}

}  // namespace

KernelTable ExpertLinearTable() {
  return {{"expert_linear", MakeExpertLinear},
          {"expert_linear_grad_bias", MakeExpertLinearGradBias},
          {"expert_linear_grad_weight", MakeExpertLinearGradWeight}};
}

}  // namespace oneflow::cuda
