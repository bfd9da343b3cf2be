// rms_norm and its gradients. x and dx are stored as X, and y and dy as S. A block works on a row,
// which comes from memory once: the later loop over it finds it in the cache next to the processor.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/norm.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

template <int kSize, typename X, typename S>
__global__ void __launch_bounds__(512)
    RmsNormKernel(int64_t width, float epsilon, float offset, S* y, float* rstds, const X* x,
                  const float* gamma) {
  __shared__ float scratch[kMostThreads / kWarp];
  const int64_t row = blockIdx.x;
  x += row * width;
  y += row * width;
  float squares = 0;
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> v = LoadPack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) squares += v.at[i] * v.at[i];
  });
  const float mean = BlockSum(squares, scratch, Scratch::kFree) / static_cast<float>(width);
  const float rstd = 1.0f / sqrtf(mean + epsilon);
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> v = LoadPack<kSize>(x + c), g = LoadPack<kSize>(gamma + c);
    Floats<kSize> normed;
#pragma unroll
    for (int i = 0; i < kSize; ++i) normed.at[i] = v.at[i] * rstd * (g.at[i] + offset);
    StorePack<kSize>(y + c, normed);
  });
  if (threadIdx.x == 0) rstds[row] = rstd;
}

// With z = x rstd and u = dy (gamma + offset): dx = rstd (u - z mean(u z)).
template <int kSize, typename X, typename S>
__global__ void __launch_bounds__(512)
    RmsNormGradInputKernel(int64_t width, float offset, bool accumulate, X* dx, const S* dy,
                           const X* x, const float* gamma, const float* rstds) {
  __shared__ float scratch[kMostThreads / kWarp];
  const int64_t row = blockIdx.x;
  dy += row * width;
  x += row * width;
  dx += row * width;
  const float rstd = rstds[row];
  float sum_ux = 0;
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> d = LoadPack<kSize>(dy + c), v = LoadPack<kSize>(x + c);
    const Floats<kSize> g = LoadPack<kSize>(gamma + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum_ux += d.at[i] * (g.at[i] + offset) * v.at[i];
  });
  const float mean_uz =
      BlockSum(sum_ux, scratch, Scratch::kFree) * rstd / static_cast<float>(width);
  ForColumns<kSize>(width, [&](int64_t c) {
    const Floats<kSize> d = LoadPack<kSize>(dy + c), v = LoadPack<kSize>(x + c);
    const Floats<kSize> g = LoadPack<kSize>(gamma + c);
    Floats<kSize> grad;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      grad.at[i] = (d.at[i] * (g.at[i] + offset) - v.at[i] * rstd * mean_uz) * rstd;
    }
    PutPack<kSize>(dx + c, grad, accumulate);
  });
}

// Of the sum Σ dy x rstd over rows.
template <typename X, typename S>
struct Gain {
  const S* dy;
  const X* x;
  const float* rstds;
  __device__ Floats<1> operator()(int64_t row, int64_t at) const {
    return {{Wide(dy[at]) * (Wide(x[at]) * rstds[row])}};
  }
};

absl::StatusOr<Kernel> MakeRmsNorm(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
  const float epsilon = static_cast<float>(DoubleAttr(s, "epsilon", 1e-5));
  const float offset = static_cast<float>(DoubleAttr(s, "offset"));
  const DType x = In(s, 0).dtype, y = s.out[0].dtype;
  return ForRows(s, x, y, width, [&]<typename X, typename S, int kSize>(X, S, Size<kSize>) {
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("rms_norm", &RmsNormKernel<kSize, X, S>, RowsShape(rows, width),
                    FindStream(call), width, epsilon, offset, call.output<S>(0),
                    call.output<float>(1), call.input<X>(0), call.input<float>(1));
    });
  });
}

absl::StatusOr<Kernel> MakeRmsNormGradInput(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  const float offset = static_cast<float>(DoubleAttr(s, "offset"));
  const DType x = In(s, 1).dtype, y = In(s, 0).dtype;
  return ForRows(s, x, y, width, [&]<typename X, typename S, int kSize>(X, S, Size<kSize>) {
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("rms_norm_grad_input", &RmsNormGradInputKernel<kSize, X, S>,
                    RowsShape(rows, width), FindStream(call), width, offset, call.accumulate,
                    call.output<X>(0), call.input<S>(0), call.input<X>(1), call.input<float>(2),
                    call.input<float>(3));
    });
  });
}

absl::StatusOr<Kernel> MakeRmsNormGradWeight(const KernelSetup& s) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  RETURN_IF_ERROR(NeedWorkspace(s, RmsNormGradWeightScratch(rows, width)));
  return ForStoredAs(s, In(s, 1).dtype, In(s, 0).dtype, [&]<typename X, typename S>(X, S) {
    return Kernel([=](const KernelCall& call) {
      const Gain<X, S> term{call.input<S>(0), call.input<X>(1), call.input<float>(2)};
      return SumOverRows(call, "rms_norm_grad_weight", {rows, width}, term,
                         SumOutputs<1>{{call.output<float>(0)}});
    });
  });
}

}  // namespace

KernelTable RmsNormTable() {
  return {{"rms_norm", MakeRmsNorm},
          {"rms_norm_grad_input", MakeRmsNormGradInput},
          {"rms_norm_grad_weight", MakeRmsNormGradWeight}};
}

}  // namespace oneflow::cuda
