// Softmax of matrices of scores, of each row over the keys that its position sees, and its
// gradient. A block works on a row.
#include <cmath>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {
namespace {

template <typename S>
__global__ void __launch_bounds__(512)
    CausalSoftmaxKernel(int64_t t, float scale, bool accumulate, S* y, const S* x) {
  __shared__ float scratch[kMostThreads / kWarp];
  const int64_t row = blockIdx.x, seen = row % t + 1;
  x += row * t;
  y += row * t;
  float most = -INFINITY;
  for (int64_t c = threadIdx.x; c < seen; c += blockDim.x) most = Larger()(most, Wide(x[c]));
  most = BlockMax(most, scratch, Scratch::kFree);
  float sum = 0;
  for (int64_t c = threadIdx.x; c < seen; c += blockDim.x) {
    sum += expf((Wide(x[c]) - most) * scale);
  }
  const float factor = 1.0f / BlockSum(sum, scratch, Scratch::kUsed);
  for (int64_t c = threadIdx.x; c < t; c += blockDim.x) {
    if (c < seen) {
      Put(y + c, expf((Wide(x[c]) - most) * scale) * factor, accumulate);
    } else if (!accumulate) {
      y[c] = Narrow<S>(0.0f);
    }
  }
}

template <typename S>
__global__ void __launch_bounds__(512)
    CausalSoftmaxGradKernel(int64_t t, float scale, bool accumulate, S* dx, const S* dy,
                            const S* y) {
  __shared__ float scratch[kMostThreads / kWarp];
  const int64_t row = blockIdx.x, seen = row % t + 1;
  dx += row * t;
  dy += row * t;
  y += row * t;
  float dot = 0;
  for (int64_t c = threadIdx.x; c < seen; c += blockDim.x) dot += Wide(dy[c]) * Wide(y[c]);
  dot = BlockSum(dot, scratch, Scratch::kFree);
  for (int64_t c = threadIdx.x; c < t; c += blockDim.x) {
    if (c < seen) {
      Put(dx + c, (Wide(dy[c]) - dot) * Wide(y[c]) * scale, accumulate);
    } else if (!accumulate) {
      dx[c] = Narrow<S>(0.0f);
    }
  }
}

absl::StatusOr<Kernel> MakeCausalSoftmax(const KernelSetup& s) {
  const int64_t t = LastDim(In(s, 0)), rows = t == 0 ? 0 : CountRows(In(s, 0));
  const float scale = static_cast<float>(DoubleAttr(s, "scale", 1));
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("causal_softmax", &CausalSoftmaxKernel<S>, RowsShape(rows, t), FindStream(call),
                    t, scale, call.accumulate, call.output<S>(0), call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeCausalSoftmaxGrad(const KernelSetup& s) {
  const int64_t t = LastDim(In(s, 0)), rows = t == 0 ? 0 : CountRows(In(s, 0));
  const float scale = static_cast<float>(DoubleAttr(s, "scale", 1));
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) {
      if (rows == 0) return absl::OkStatus();
      return Launch("causal_softmax_grad", &CausalSoftmaxGradKernel<S>, RowsShape(rows, t),
                    FindStream(call), t, scale, call.accumulate, call.output<S>(0),
                    call.input<S>(0), call.input<S>(1));
    });
  });
}

}  // namespace

KernelTable CausalSoftmaxTable() {
  return {{"causal_softmax", MakeCausalSoftmax}, {"causal_softmax_grad", MakeCausalSoftmaxGrad}};
}

}  // namespace oneflow::cuda
