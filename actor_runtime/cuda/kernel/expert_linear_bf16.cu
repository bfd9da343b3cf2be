// Products of experts' tokens of bf16, by warp products of small matrices (mma.cuh), with sums in
// f32. A block of eight warps computes a tile of 32 kM rows and 128 columns: warp w has 16 kM rows,
// from 16 kM (w % 2), and 32 columns, from 32 (w / 2). It multiplies kDepth terms at a time, and
// loads the next ones meanwhile.

#include "actor_runtime/cuda/kernel/bf16_tile.cuh"
#include "actor_runtime/cuda/kernel/expert_linear.cuh"
#include "actor_runtime/cuda/kernel/mma.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kColumns = 128, kDepth = 64;
constexpr int kN = kColumns / 4 / 8;  // matrices of 8 columns of a warp
template <int kM>
constexpr int kRows = 32 * kM;
template <int kM>
constexpr int kStage = (kRows<kM> + kColumns) * kDepth;  // elements of both sides
template <int kM>
constexpr size_t kSharedBytes = 2 * kStage<kM> * sizeof(Bf16);

// A part of a matrix in memory.
struct Part {
  const Bf16* data;
  int64_t row;            // elements from one row to the next
  int64_t rows, columns;  // from `data` on
};

// Copies kR x kC elements asynchronously; those that the part lacks are zeros.
template <int kR, int kC>
__device__ inline void LoadPart(Bf16* tile, const Part& part) {
  constexpr int kChunks = kC / kChunk, kApart = kThreads / kChunks;
  static_assert(kApart % 8 == 0 && kR % kApart == 0);
  const int r = static_cast<int>(threadIdx.x) / kChunks,
            c = static_cast<int>(threadIdx.x) % kChunks;
  const int rows = c * kChunk < part.columns ? static_cast<int>(min(part.rows, int64_t{kR})) : 0;
  Bf16* to = tile + TileIndex<kC>(r, c);
  const Bf16* from = part.data + r * part.row + c * kChunk;
#pragma unroll
  for (int i = 0; i < kR; i += kApart) {
    CopyLater(to + i * kC, from, r + i < rows);
    from += kApart * part.row;
  }
}

__device__ inline int WarpRow(int rows) { return WarpIndex() % 2 * rows; }
__device__ inline int WarpColumn() { return WarpIndex() / 2 * 8 * kN; }

// sums += the products of kDepth terms. A tile has its terms in rows if its flag says so, else in
// columns.
template <bool kLeftRowsAreTerms, bool kRightRowsAreTerms, int kM>
__device__ inline void MultiplyStage(const Bf16* left, const Bf16* right, Product<kM, kN>& sums) {
  const int lane = LaneIndex(), row = WarpRow(16 * kM), column = WarpColumn();
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const int first = row + 16 * m;
      if constexpr (kLeftRowsAreTerms) {
        LoadTransposed(a[m], left + TileIndex<kRows<kM>>(16 * k + lane % 8 + lane / 16 * 8,
                                                         first / kChunk + lane / 8 % 2));
      } else {
        LoadMatrices(a[m], left + TileIndex<kDepth>(first + lane % 16, 2 * k + lane / 16));
      }
    }
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      const int first = column + 8 * n;
      uint32_t b[4];
      if constexpr (kRightRowsAreTerms) {
        LoadTransposed(b,
                       right + TileIndex<kColumns>(16 * k + lane % 16, first / kChunk + lane / 16));
      } else {
        LoadMatrices(
            b, right + TileIndex<kDepth>(first + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
      }
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(sums.at[m][n], a[m], b[0], b[1]);
        MultiplyAdd(sums.at[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// sums = the products of `steps` times kDepth terms; load(left, right) loads the next ones.
template <bool kLeftRowsAreTerms, bool kRightRowsAreTerms, int kM, typename Load>
__device__ inline void Multiply(int64_t steps, Load load, Product<kM, kN>& sums) {
  Bf16* stages = DynamicShared<Bf16>();
  constexpr int kLeft = kRows<kM> * kDepth;
  sums.Clear();
  if (steps > 0) load(stages, stages + kLeft);
  EndCopies();
  int stage = 0;
  for (int64_t step = 0; step < steps; ++step, stage = kStage<kM> - stage) {
    if (step + 1 < steps) {
      Bf16* next = stages + kStage<kM> - stage;
      load(next, next + kLeft);
    }
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    const Bf16* left = stages + stage;
    MultiplyStage<kLeftRowsAreTerms, kRightRowsAreTerms>(left, left + kLeft, sums);
    __syncthreads();  // The stage may be written again.
  }
  WaitForCopies<0>();
}

// to[rows, columns] (+)= sums.
template <int kM, typename C>
__device__ inline void PutTile(C* to, int64_t row, int64_t rows, int64_t columns,
                               const Product<kM, kN>& sums, bool accumulate) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int r = WarpRow(16 * kM) + RowIn(m, i);
      if (r >= rows) continue;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const int c = WarpColumn() + ColumnIn(n, 0);
        const Floats<2> pair{sums.at[m][n][i], sums.at[m][n][i + 1]};
        if (c < columns) PutPack<2>(to + r * row + c, pair, accumulate);
      }
    }
  }
}

// Adds bias[columns] to each row.
template <int kM>
__device__ inline void AddBias(const float* bias, int64_t columns, Product<kM, kN>& sums) {
#pragma unroll
  for (int n = 0; n < kN; ++n) {
    const int c = WarpColumn() + ColumnIn(n, 0);
    if (c >= columns) continue;
    const Floats<2> pair = LoadPack<2>(bias + c);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.at[m][n][i] += pair.at[i % 2];
    }
  }
}

// A block is a tile of rows and one of columns. `bias`: null if there is none.
template <bool kTransposed, int kM>
__global__ void __launch_bounds__(kThreads, 2)
    Bf16ExpertLinearKernel(ExpertSizes s, Bf16* out, const Bf16* y, const Bf16* w,
                           const int32_t* offsets, const float* bias) {
  const int64_t column_tiles = (s.columns + kColumns - 1) / kColumns;
  const int64_t tiles = CountTiles<kRows<kM>>(s.queues), block = blockIdx.x / column_tiles;
  const RowTile tile =
      FindTile<kRows<kM>>(s.queues, offsets, block / tiles, static_cast<int>(block % tiles));
  if (tile.count <= 0) return;
  const int64_t column = blockIdx.x % column_tiles * kColumns, columns = s.columns - column;
  if (tile.expert > 0) w += tile.expert * s.width * s.columns;
  w += column * (kTransposed ? s.width : 1);
  y += tile.begin * s.width;
  Product<kM, kN> sums;
  int64_t term = 0;
  const auto load = [&](Bf16* left, Bf16* right) {
    const int64_t rest = s.width - term;
    LoadPart<kRows<kM>, kDepth>(left, {y + term, s.width, tile.count, rest});
    if constexpr (kTransposed) {
      LoadPart<kColumns, kDepth>(right, {w + term, s.width, columns, rest});
    } else {
      LoadPart<kDepth, kColumns>(right, {w + term * s.columns, s.columns, rest, columns});
    }
    term += kDepth;
  };
  const int64_t steps = tile.expert < 0 ? 0 : (s.width + kDepth - 1) / kDepth;
  Multiply<false, !kTransposed>(steps, load, sums);
  if (bias != nullptr && tile.expert >= 0) {
    AddBias(bias + tile.expert * s.columns + column, columns, sums);
  }
  PutTile(out + tile.begin * s.columns + column, s.columns, tile.count, columns, sums,
          /*accumulate=*/false);
}

// A block is a tile of an expert's gradient; it sums the rows of runs in their order.
template <int kM>
__global__ void __launch_bounds__(kThreads, 2)
    Bf16ExpertGradWeightKernel(ExpertSizes s, bool accumulate, float* dw, const Bf16* y,
                               const Bf16* dout, const int32_t* offsets) {
  const int64_t column_tiles = (s.columns + kColumns - 1) / kColumns;
  const int64_t row_tiles = (s.width + kRows<kM> - 1) / kRows<kM>;
  const int64_t block = blockIdx.x / column_tiles, e = block / row_tiles;
  const int64_t column = blockIdx.x % column_tiles * kColumns, row = block % row_tiles * kRows<kM>;
  const int64_t rows = s.width - row, columns = s.columns - column;
  const int64_t queue = s.queues.FirstQueue(e), at = e % s.queues.of_group;
  int64_t steps = 0;
  for (int64_t run = 0; run < s.queues.runs; ++run) {
    steps += (s.queues.FindInQueue(offsets, queue + run, at).size() + kDepth - 1) / kDepth;
  }
  ExpertQueues::Rows rest{0, 0};
  int64_t run = 0;
  const auto load = [&](Bf16* left, Bf16* right) {
    while (rest.size() <= 0) rest = s.queues.FindInQueue(offsets, queue + run++, at);
    LoadPart<kDepth, kRows<kM>>(left, {y + rest.begin * s.width + row, s.width, rest.size(), rows});
    LoadPart<kDepth, kColumns>(
        right, {dout + rest.begin * s.columns + column, s.columns, rest.size(), columns});
    rest.begin += kDepth;
  };
  Product<kM, kN> sums;
  Multiply<true, true>(steps, load, sums);
  PutTile(dw + (e * s.width + row) * s.columns + column, s.columns, rows, columns, sums,
          accumulate);
}

constexpr int kGradM = 4;

// Of the tiles of experts with few rows more is empty the larger they are.
bool AreSmallTilesBetter(const ExpertQueues& q) { return q.slots < 256 * q.of_group; }

// call(Size<kM>()) with tiles of 32 kM rows.
template <typename Call>
absl::Status WithTiles(const ExpertSizes& s, Call call) {
  return AreSmallTilesBetter(s.queues) ? call(Size<2>()) : call(Size<4>());
}

}  // namespace

absl::Status AllowBf16ExpertLinear() {
  const auto allow = []<int kM>(Size<kM>) {
    for (auto* kernel : {&Bf16ExpertLinearKernel<false, kM>, &Bf16ExpertLinearKernel<true, kM>}) {
      RETURN_IF_ERROR(AllowShared("expert_linear_bf16", kernel, kSharedBytes<kM>));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(allow(Size<2>()));
  RETURN_IF_ERROR(allow(Size<4>()));
  return AllowShared("expert_linear_grad_weight_bf16", &Bf16ExpertGradWeightKernel<kGradM>,
                     kSharedBytes<kGradM>);
}

absl::Status LaunchBf16ExpertLinear(const ExpertSizes& s, bool transposed, cudaStream_t stream,
                                    Bf16* out, const Bf16* y, const Bf16* w, const int32_t* offsets,
                                    const float* bias) {
  return WithTiles(s, [&]<int kM>(Size<kM>) {
    const int64_t row_tiles = s.queues.groups * s.queues.runs * CountTiles<kRows<kM>>(s.queues);
    const LaunchShape shape{MakeGrid(row_tiles * DivideUp(s.columns, kColumns)), dim3(kThreads),
                            kSharedBytes<kM>};
    const auto kernel =
        transposed ? &Bf16ExpertLinearKernel<true, kM> : &Bf16ExpertLinearKernel<false, kM>;
    return Launch("expert_linear_bf16", kernel, shape, stream, s, out, y, w, offsets, bias);
  });
}

absl::Status LaunchBf16ExpertGradWeight(const ExpertSizes& s, bool accumulate, cudaStream_t stream,
                                        float* dw, const Bf16* y, const Bf16* dout,
                                        const int32_t* offsets) {
  const int64_t tiles = DivideUp(s.width, kRows<kGradM>) * DivideUp(s.columns, kColumns);
  const LaunchShape shape{MakeGrid(s.queues.experts() * tiles), dim3(kThreads),
                          kSharedBytes<kGradM>};
  return Launch("expert_linear_grad_weight_bf16", &Bf16ExpertGradWeightKernel<kGradM>, shape,
                stream, s, accumulate, dw, y, dout, offsets);
}

}  // namespace oneflow::cuda
