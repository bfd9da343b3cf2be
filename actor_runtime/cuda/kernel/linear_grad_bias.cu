// The gradient of a bias: sums of columns. A block sums kRowsAtOnce rows at a time over a piece of
// the rows; pieces and their sum have an order that the shape fixes.
#include <algorithm>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

constexpr int kRowsAtOnce = kThreads / kWarp;  // a warp a row

// Sums of rows [piece * rows_a_piece, ...) of dy[rows, width] to sums[piece, width], for the pieces
// that blockIdx.y counts.
template <typename S, int kSize>
__global__ void __launch_bounds__(kThreads)
    ColumnSumsKernel(const S* dy, int64_t rows, int64_t width, int64_t rows_a_piece, float* sums,
                     bool accumulate) {
  __shared__ float of_warp[kRowsAtOnce][kWarp * kSize];
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWarp + LaneIndex()) * kSize;
  const int64_t begin = blockIdx.y * rows_a_piece;
  const int64_t end = begin + rows_a_piece < rows ? begin + rows_a_piece : rows;
  Floats<kSize> sum = {};
  if (column < width) {
    for (int64_t row = begin + WarpIndex(); row < end; row += kRowsAtOnce) {
      const Floats<kSize> x = LoadPack<kSize>(dy + row * width + column);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum.at[i] += x.at[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) of_warp[WarpIndex()][LaneIndex() * kSize + i] = sum.at[i];
  __syncthreads();
  if (WarpIndex() != 0 || column >= width) return;
  for (int w = 1; w < kRowsAtOnce; ++w) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum.at[i] += of_warp[w][LaneIndex() * kSize + i];
  }
  PutPack<kSize>(sums + blockIdx.y * width + column, sum, accumulate);
}

// y[width] (+)= the sum of the pieces, in their order.
__global__ void __launch_bounds__(kThreads)
    AddPiecesKernel(const float* sums, int pieces, int64_t width, float* y, bool accumulate) {
  const int64_t column = GlobalThread();
  if (column >= width) return;
  float sum = 0;
  for (int p = 0; p < pieces; ++p) sum += sums[p * width + column];
  Put(y + column, sum, accumulate);
}

absl::StatusOr<Kernel> MakeLinearGradBias(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  const int64_t rows = DimsProduct(In(s, 0).local(), 0, static_cast<int>(IntAttr(s, "lead")));
  const int64_t width = Elements(s.out[0]);
  const int64_t pieces = std::max<int64_t>(1, RowParts(rows));
  RETURN_IF_ERROR(NeedWorkspace(s, ColumnSumsScratch(rows, width)));
  return ForStoredAs(s, In(s, 0).dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) -> absl::Status {
      if (width == 0) return absl::OkStatus();
      const bool direct = pieces == 1;
      float* y = call.output<float>(0);
      float* sums = direct ? y : reinterpret_cast<float*>(call.workspace.data());
      const absl::Status summed =
          ForPacks<PackSize<S, float>()>(width, [&]<int kSize>(Size<kSize>) {
            const dim3 grid(MakeGrid(DivideUp(width, kWarp * kSize)).x,
                            static_cast<unsigned>(pieces));
            return Launch("column_sums", &ColumnSumsKernel<S, kSize>, {grid, dim3(kThreads)},
                          FindStream(call), call.input<S>(0), rows, width, RowsOfPart(rows), sums,
                          direct && call.accumulate);
          });
      if (direct || !summed.ok()) return summed;
      return Launch("add_column_sums", &AddPiecesKernel, ElementsShape(width), FindStream(call),
                    sums, static_cast<int>(pieces), width, y, call.accumulate);
    });
  });
}

}  // namespace

KernelTable LinearGradBiasTable() { return {{"linear_grad_bias", MakeLinearGradBias}}; }

}  // namespace oneflow::cuda
