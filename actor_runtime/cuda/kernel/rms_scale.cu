// square_sums, rms_scale and their gradients: a norm whose rows may be split between devices. A row
// is what a device has of the trailing dimensions; a block works on one.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/norm.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

// The rows of a device, and what makes their scale of the sums of squares on all devices.
struct SplitRows {
  int64_t rows, width;
  float of, epsilon;
  __device__ float Factor(float sum) const { return 1.0f / sqrtf(sum / of + epsilon); }
};

template <int kSize, typename S>
__global__ void __launch_bounds__(512)
    SquareSumsKernel(SplitRows s, bool accumulate, float* sums, const S* x) {
  __shared__ float scratch[kMostThreads / kWarp];
  x += blockIdx.x * s.width;
  float squares = 0;
  ForColumns<kSize>(s.width, [&](int64_t c) {
    const Floats<kSize> v = LoadPack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) squares += v.at[i] * v.at[i];
  });
  squares = BlockSum(squares, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(sums + blockIdx.x, squares, accumulate);
}

// y = x * factor, where it is 2 dsums; with a gamma y = x r gamma, where r is of the sums.
template <int kSize, typename S>
__global__ void __launch_bounds__(512)
    ScaleRowsKernel(SplitRows s, bool accumulate, S* y, const S* x, const float* sums,
                    const float* gamma) {
  const float sum = sums[blockIdx.x];
  const float factor = gamma == nullptr ? 2.0f * sum : s.Factor(sum);
  x += blockIdx.x * s.width;
  y += blockIdx.x * s.width;
  ForColumns<kSize>(s.width, [&](int64_t c) {
    Floats<kSize> v = LoadPack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] *= factor;
    if (gamma != nullptr) {
      const Floats<kSize> g = LoadPack<kSize>(gamma + c);
#pragma unroll
      for (int i = 0; i < kSize; ++i) v.at[i] *= g.at[i];
    }
    PutPack<kSize>(y + c, v, accumulate);
  });
}

template <int kSize, typename S>
__global__ void __launch_bounds__(512)
    ScaleGradSumsKernel(SplitRows s, bool accumulate, float* dsums, const S* dy, const S* x,
                        const float* sums, const float* gamma) {
  __shared__ float scratch[kMostThreads / kWarp];
  dy += blockIdx.x * s.width;
  x += blockIdx.x * s.width;
  float dot = 0;
  ForColumns<kSize>(s.width, [&](int64_t c) {
    const Floats<kSize> d = LoadPack<kSize>(dy + c), v = LoadPack<kSize>(x + c);
    const Floats<kSize> g = LoadPack<kSize>(gamma + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) dot += d.at[i] * g.at[i] * v.at[i];
  });
  dot = BlockSum(dot, scratch, Scratch::kFree);
  const float r = s.Factor(sums[blockIdx.x]);
  if (threadIdx.x == 0) Put(dsums + blockIdx.x, -0.5f * r * r * r / s.of * dot, accumulate);
}

// Of the sum Σ dy x r over rows.
template <typename S>
struct SplitGain {
  SplitRows s;
  const S *dy, *x;
  const float* sums;
  __device__ Floats<1> operator()(int64_t row, int64_t at) const {
    return {{Wide(dy[at]) * (Wide(x[at]) * s.Factor(sums[row]))}};
  }
};

// Of x, in the dimensions behind the first `outer`.
SplitRows FindSplitRows(const KernelSetup& s, const Port& x, size_t outer) {
  const int first = static_cast<int>(outer);
  return {.rows = DimsProduct(x.local(), 0, first),
          .width = DimsProduct(x.local(), first),
          .of = static_cast<float>(IntAttr(s, "of")),
          .epsilon = static_cast<float>(DoubleAttr(s, "epsilon", 1e-5))};
}

// make(S(), Size<kSize>()) for rows stored as `dtype` says.
template <typename Make>
absl::StatusOr<Kernel> ForSplitRows(const KernelSetup& s, DType dtype, const SplitRows& rows,
                                    Make make) {
  return ForStoredAs(s, dtype, [&]<typename S>(S zero) {
    return ForPacks<PackSize<S, float>()>(rows.width, [&](auto size) { return make(zero, size); });
  });
}

absl::StatusOr<Kernel> MakeSquareSums(const KernelSetup& s) {
  const SplitRows rows = FindSplitRows(s, In(s, 0), s.out[0].dims.size());
  return ForSplitRows(s, In(s, 0).dtype, rows, [&]<typename S, int kSize>(S, Size<kSize>) {
    return Kernel([rows](const KernelCall& call) {
      if (rows.rows == 0) return absl::OkStatus();
      return Launch("square_sums", &SquareSumsKernel<kSize, S>, RowsShape(rows.rows, rows.width),
                    FindStream(call), rows, call.accumulate, call.output<float>(0),
                    call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeSquareSumsGrad(const KernelSetup& s) {
  const SplitRows rows = FindSplitRows(s, In(s, 1), In(s, 0).dims.size());
  return ForSplitRows(s, In(s, 1).dtype, rows, [&]<typename S, int kSize>(S, Size<kSize>) {
    return Kernel([rows](const KernelCall& call) {
      if (rows.rows == 0) return absl::OkStatus();
      return Launch("square_sums_grad", &ScaleRowsKernel<kSize, S>,
                    RowsShape(rows.rows, rows.width), FindStream(call), rows, call.accumulate,
                    call.output<S>(0), call.input<S>(1), call.input<float>(0),
                    static_cast<const float*>(nullptr));
    });
  });
}

absl::StatusOr<Kernel> MakeRmsScale(const KernelSetup& s) {
  const SplitRows rows = FindSplitRows(s, In(s, 0), In(s, 1).dims.size());
  return ForSplitRows(s, In(s, 0).dtype, rows, [&]<typename S, int kSize>(S, Size<kSize>) {
    return Kernel([rows](const KernelCall& call) {
      if (rows.rows == 0) return absl::OkStatus();
      return Launch("rms_scale", &ScaleRowsKernel<kSize, S>, RowsShape(rows.rows, rows.width),
                    FindStream(call), rows, call.accumulate, call.output<S>(0), call.input<S>(0),
                    call.input<float>(1), call.input<float>(2));
    });
  });
}

absl::StatusOr<Kernel> MakeRmsScaleGradSums(const KernelSetup& s) {
  const SplitRows rows = FindSplitRows(s, In(s, 1), In(s, 2).dims.size());
  return ForSplitRows(s, In(s, 1).dtype, rows, [&]<typename S, int kSize>(S, Size<kSize>) {
    return Kernel([rows](const KernelCall& call) {
      if (rows.rows == 0) return absl::OkStatus();
      return Launch("rms_scale_grad_sums", &ScaleGradSumsKernel<kSize, S>,
                    RowsShape(rows.rows, rows.width), FindStream(call), rows, call.accumulate,
                    call.output<float>(0), call.input<S>(0), call.input<S>(1), call.input<float>(2),
                    call.input<float>(3));
    });
  });
}

absl::StatusOr<Kernel> MakeRmsScaleGradWeight(const KernelSetup& s) {
  const SplitRows rows = FindSplitRows(s, In(s, 1), In(s, 2).dims.size());
  RETURN_IF_ERROR(NeedWorkspace(s, RmsNormGradWeightScratch(rows.rows, rows.width)));
  return ForStoredAs(s, In(s, 1).dtype, [&]<typename S>(S) {
    return Kernel([rows](const KernelCall& call) {
      const SplitGain<S> term{rows, call.input<S>(0), call.input<S>(1), call.input<float>(2)};
      return SumOverRows(call, "rms_scale_grad_weight", {rows.rows, rows.width}, term,
                         SumOutputs<1>{{call.output<float>(0)}});
    });
  });
}

}  // namespace

KernelTable RmsScaleTable() {
  return {{"rms_scale", MakeRmsScale},
          {"rms_scale_grad_sums", MakeRmsScaleGradSums},
          {"rms_scale_grad_weight", MakeRmsScaleGradWeight},
          {"square_sums", MakeSquareSums},
          {"square_sums_grad", MakeSquareSumsGrad}};
}

}  // namespace oneflow::cuda
