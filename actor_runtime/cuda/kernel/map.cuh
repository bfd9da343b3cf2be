// Element-wise functions over tensors. A thread works on one pack: 16 bytes of the widest of them.
//
//   struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };
//   return Map(call, "add", Sum(), n, y, a, b);   // y = a + b, or y += a + b
#pragma once

#include "absl/status/status.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {

// y (+)= f(x...).
template <typename F, int kSize, typename Y, typename... X>
__global__ void __launch_bounds__(kThreads)
    MapKernel(F f, int64_t n, bool accumulate, Y* y, const X*... x) {
  const int64_t begin = GlobalThread() * kSize;
  if (begin + kSize <= n) {
    const auto all = [&f](auto... packs) {
      Floats<kSize> values;
#pragma unroll
      for (int i = 0; i < kSize; ++i) values.at[i] = f(packs.at[i]...);
      return values;
    };
    PutPack<kSize>(y + begin, all(LoadPack<kSize>(x + begin)...), accumulate);
  } else {
    for (int64_t i = begin; i < n; ++i) Put(y + i, f(Wide(x[i])...), accumulate);
  }
}

template <typename F, typename Y, typename... X>
absl::Status Map(const KernelCall& call, const char* name, F f, int64_t n, Y* y, const X*... x) {
  if (n == 0) return absl::OkStatus();
  constexpr int kSize = PackSize<Y, X...>();
  return Launch(name, &MapKernel<F, kSize, Y, X...>, ElementsShape(n, kSize), FindStream(call), f,
                n, call.accumulate, y, x...);
}

struct Zero {
  __device__ float operator()() const { return 0; }
};

}  // namespace oneflow::cuda
