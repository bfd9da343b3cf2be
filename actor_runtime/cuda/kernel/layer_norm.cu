// Layer norm and its gradients. Rows of the residual stream, x and dx, are stored as X, and what is
// normalised, y and dy, as S. A block works on a row, which comes from memory once: the later loops
// over it find it in the cache next to the processor.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/norm.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

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

// Of the sums Σ dy (x - mean) rstd and Σ dy over rows.
template <typename X, typename S>
struct GainAndBias {
  const S* dy;
  const X* x;
  const float *means, *rstds;
  __device__ Floats<2> operator()(int64_t row, int64_t at) const {
    const float d = Wide(dy[at]);
    return {{d * ((Wide(x[at]) - means[row]) * rstds[row]), d}};
  }
};

absl::StatusOr<Kernel> MakeLayerNorm(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
  const float epsilon = static_cast<float>(DoubleAttr(s, "epsilon", 1e-5));
  const bool has_beta = s.in.size() > 2;
  const DType x = In(s, 0).dtype, y = s.out[0].dtype;
  return ForRows(s, x, y, width, [&]<typename X, typename S, int kSize>(X, S, Size<kSize>) {
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
  const DType x = In(s, 1).dtype, y = In(s, 0).dtype;
  return ForRows(s, x, y, width, [&]<typename X, typename S, int kSize>(X, S, Size<kSize>) {
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("layer_norm_grad_input", &LayerNormGradInputKernel<kSize, X, S>,
                    RowsShape(rows, width), FindStream(call), width, call.accumulate,
                    call.output<X>(0), call.input<S>(0), call.input<X>(1), call.input<float>(2),
                    call.input<float>(3), call.input<float>(4));
    });
  });
}

absl::StatusOr<Kernel> MakeLayerNormGradWeight(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  RETURN_IF_ERROR(NeedWorkspace(s, LayerNormGradWeightScratch(rows, width)));
  const bool has_beta = s.out.size() > 1;
  return ForStoredAs(s, In(s, 1).dtype, In(s, 0).dtype, [&]<typename X, typename S>(X, S) {
    return Kernel([=](const KernelCall& call) {
      const GainAndBias<X, S> term{call.input<S>(0), call.input<X>(1), call.input<float>(2),
                                   call.input<float>(3)};
      const SumOutputs<2> out{{call.output<float>(0), has_beta ? call.output<float>(1) : nullptr}};
      return SumOverRows(call, "layer_norm_grad_weight", {rows, width}, term, out);
    });
  });
}

}  // namespace

KernelTable LayerNormTable() {
  return {{"layer_norm", MakeLayerNorm},
          {"layer_norm_grad_input", MakeLayerNormGradInput},
          {"layer_norm_grad_weight", MakeLayerNormGradWeight}};
}

}  // namespace oneflow::cuda
