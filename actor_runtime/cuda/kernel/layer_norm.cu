// Layer norm and its gradients. Rows of the residual stream, x and dx, are stored as X, and what is
// normalised, y and dy, as S. A block works on a row, which comes from memory once: the later loops
// over it find it in the cache next to the processor.
#include "actor_runtime/cuda/kernel/factories.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

// The columns of a row that a thread visits: packs, a block's width apart.
template <int kSize, typename Visit>
__device__ inline void ForColumns(int64_t width, Visit visit) {
  const int64_t step = static_cast<int64_t>(blockDim.x) * kSize;
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * kSize; c < width; c += step) visit(c);
}

// `beta` may be null.
template <int kSize, typename X, typename S>
__global__ void __launch_bounds__(512)
    LayerNormKernel(int64_t width, float epsilon, S* y, float* means, float* rstds, const X* x,
                    const float* gamma, const float* beta) {
  __shared__ float scratch[kMostThreads / kWarp];
  const int64_t row = blockIdx.x;
  x += row * width;
  y += row * width;
  float sum = 0;
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> v = LoadPack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum += v.at[i];
  });
  const float mean = BlockSum(sum, scratch, Scratch::kFree) / static_cast<float>(width);
  // A separate pass, because E[x^2] - mean^2 would lose digits.
  float squares = 0;
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> v = LoadPack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) squares += (v.at[i] - mean) * (v.at[i] - mean);
  });
  const float rstd =
      1.0f /
      sqrtf(BlockSum(squares, scratch, Scratch::kUsed) / static_cast<float>(width) + epsilon);
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> v = LoadPack<kSize>(x + c), g = LoadPack<kSize>(gamma + c);
    Floats<kSize> b{};
    if (beta != nullptr) b = LoadPack<kSize>(beta + c);
    Floats<kSize> normed;
#pragma unroll
    for (int i = 0; i < kSize; ++i) normed.at[i] = (v.at[i] - mean) * rstd * g.at[i] + b.at[i];
    StorePack<kSize>(y + c, normed);
  });
  if (threadIdx.x == 0) {
    means[row] = mean;
    rstds[row] = rstd;
  }
}

// With z = (x - mean) rstd and u = dy gamma: dx = rstd (u - mean(u) - z mean(u z)).
template <int kSize, typename X, typename S>
__global__ void __launch_bounds__(512)
    LayerNormGradInputKernel(int64_t width, bool accumulate, X* dx, const S* dy, const X* x,
                             const float* gamma, const float* means, const float* rstds) {
  __shared__ float scratch[kMostThreads / kWarp];
  const int64_t row = blockIdx.x;
  dy += row * width;
  x += row * width;
  dx += row * width;
  const float mean = means[row], rstd = rstds[row];
  float sum_u = 0, sum_uz = 0;
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> d = LoadPack<kSize>(dy + c), v = LoadPack<kSize>(x + c);
    const Floats<kSize> g = LoadPack<kSize>(gamma + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float u = d.at[i] * g.at[i];
      sum_u += u;
      sum_uz += u * (v.at[i] - mean);
    }
  });
  const float mean_u = BlockSum(sum_u, scratch, Scratch::kFree) / static_cast<float>(width);
  const float mean_uz =
      BlockSum(sum_uz, scratch, Scratch::kUsed) * rstd / static_cast<float>(width);
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> d = LoadPack<kSize>(dy + c), v = LoadPack<kSize>(x + c);
    const Floats<kSize> g = LoadPack<kSize>(gamma + c);
    Floats<kSize> grad;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float z = (v.at[i] - mean) * rstd;
      grad.at[i] = (d.at[i] * g.at[i] - mean_u - z * mean_uz) * rstd;
    }
    PutPack<kSize>(dx + c, grad, accumulate);
  });
}

// Sums over rows: a block takes kTileColumns columns of a part of the rows, kTileRows at a time.
constexpr int kTileColumns = 32, kTileRows = kThreads / kTileColumns;

struct PartSizes {
  int64_t rows, width;
};

// Σ dy (x - mean) rstd and Σ dy over the rows of part blockIdx.y, to sums[part][2][width].
template <typename X, typename S>
__global__ void __launch_bounds__(kThreads)
    LayerNormPartsKernel(PartSizes s, int64_t part_rows, float* sums, const S* dy, const X* x,
                         const float* means, const float* rstds) {
  __shared__ float tile[2][kTileRows][kTileColumns];
  const int lane = LaneIndex(), slot = WarpIndex();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + lane;
  const int64_t begin = blockIdx.y * part_rows;
  const int64_t end = begin + part_rows < s.rows ? begin + part_rows : s.rows;
  float gain = 0, bias = 0;
  if (column < s.width) {
    for (int64_t row = begin + slot; row < end; row += kTileRows) {
      const int64_t at = row * s.width + column;
      const float d = Wide(dy[at]);
      gain += d * ((Wide(x[at]) - means[row]) * rstds[row]);
      bias += d;
    }
  }
  tile[0][slot][lane] = gain;
  tile[1][slot][lane] = bias;
  __syncthreads();
  if (slot >= 2 || column >= s.width) return;
  float sum = 0;
  for (int r = 0; r < kTileRows; ++r) sum += tile[slot][r][lane];
  sums[(static_cast<int64_t>(blockIdx.y) * 2 + slot) * s.width + column] = sum;
}

// `dbeta` may be null.
__global__ void __launch_bounds__(kThreads)
    LayerNormJoinKernel(int64_t parts, int64_t width, bool accumulate, float* dgamma, float* dbeta,
                        const float* sums) {
  const int64_t i = GlobalThread(), column = i % width;
  if (i >= 2 * width) return;
  float* to = i < width ? dgamma : dbeta;
  if (to == nullptr) return;
  float sum = 0;
  for (int64_t part = 0; part < parts; ++part) sum += sums[part * 2 * width + i];
  Put(to + column, sum, accumulate);
}

// fn(X(), S(), Size<kSize>()) for rows stored as `x` says, and what is normalised as `y` says.
template <typename Fn>
absl::StatusOr<Kernel> ForRows(const KernelSetup& s, DType x, DType y, int64_t width, Fn fn) {
  return ForStoredAs(s, x, [&](auto of_x) {
    return ForStoredAs(s, y, [&](auto of_y) {
      return ForPacks<PackSize<decltype(of_x), decltype(of_y), float>()>(
          width, [&](auto size) { return fn(of_x, of_y, size); });
    });
  });
}

}  // namespace

absl::StatusOr<Kernel> MakeLayerNorm(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
  const float epsilon = static_cast<float>(DoubleAttr(s, "epsilon", 1e-5));
  const bool has_beta = s.in.size() > 2;
  return ForRows(s, In(s, 0).dtype, s.out[0].dtype, width, [&](auto x, auto y, auto size) {
    using X = decltype(x);
    using S = decltype(y);
    constexpr int kSize = decltype(size)::value;
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("layer_norm", &LayerNormKernel<kSize, X, S>, RowsShape(rows, width),
                    FindStream(call), width, epsilon, call.output<S>(0), call.output<float>(1),
                    call.output<float>(2), call.input<X>(0), call.input<float>(1),
                    has_beta ? call.input<float>(2) : nullptr);
    });
  });
}

absl::StatusOr<Kernel> MakeLayerNormGradInput(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  return ForRows(s, In(s, 1).dtype, In(s, 0).dtype, width, [&](auto x, auto y, auto size) {
    using X = decltype(x);
    using S = decltype(y);
    constexpr int kSize = decltype(size)::value;
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("layer_norm_grad_input", &LayerNormGradInputKernel<kSize, X, S>,
                    RowsShape(rows, width), FindStream(call), width, call.accumulate,
                    call.output<X>(0), call.input<S>(0), call.input<X>(1), call.input<float>(2),
                    call.input<float>(3), call.input<float>(4));
    });
  });
}

// The sums of parts first, then the sum of the parts in order.
absl::StatusOr<Kernel> MakeLayerNormGradWeight(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  RETURN_IF_ERROR(NeedWorkspace(s, LayerNormGradWeightScratch(rows, width)));
  const bool has_beta = s.out.size() > 1;
  return ForStoredAs(s, In(s, 1).dtype, [&](auto of_x) {
    return ForStoredAs(s, In(s, 0).dtype, [&](auto of_y) {
      using X = decltype(of_x);
      using S = decltype(of_y);
      return Kernel([=](const KernelCall& call) -> absl::Status {
        if (width == 0) return absl::OkStatus();
        const int64_t parts = RowParts(rows);
        float* sums = reinterpret_cast<float*>(call.workspace.data());
        if (parts > 0) {
          LaunchShape shape{MakeGrid(DivideUp(width, kTileColumns)), dim3(kThreads)};
          shape.grid.y = static_cast<unsigned>(parts);
          RETURN_IF_ERROR(Launch("layer_norm_grad_weight", &LayerNormPartsKernel<X, S>, shape,
                                 FindStream(call), PartSizes{rows, width}, RowsOfPart(rows), sums,
                                 call.input<S>(0), call.input<X>(1), call.input<float>(2),
                                 call.input<float>(3)));
        }
        return Launch("layer_norm_grad_weight", &LayerNormJoinKernel, ElementsShape(2 * width),
                      FindStream(call), parts, width, call.accumulate, call.output<float>(0),
                      has_beta ? call.output<float>(1) : nullptr, sums);
      });
    });
  });
}

}  // namespace oneflow::cuda
