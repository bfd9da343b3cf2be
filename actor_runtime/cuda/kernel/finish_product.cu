#include "actor_runtime/cuda/kernel/finish_product.h"

#include "actor_runtime/cuda/kernel/gated.cuh"
#include "actor_runtime/cuda/kernel/gelu.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {
namespace {

using Then = ProductSpec::Then;

// What the kernel does, and where.
template <typename S>
struct Finishing {
  Then then;
  bool silu;
  const S *other, *third;
  S *out, *second;
};

// Does to a pack of rounded results what follows the product, and writes it.
template <int kSize, typename A, typename S>
__device__ inline void FinishGated(const Finishing<S>& f, int64_t begin, Floats<kSize> v) {
  const Floats<kSize> gate = LoadPack<kSize>(f.other + begin);
  if (f.then == Then::kGated) {
    StorePack<kSize>(f.out + begin, v);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] = Gated<A>()(gate.at[i], v.at[i]);
    StorePack<kSize>(f.second + begin, v);
    return;
  }
  const Floats<kSize> up = LoadPack<kSize>(f.third + begin);
  Floats<kSize> of_gate;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const GatedGradient grad = GatedGrad<A>(v.at[i], gate.at[i], up.at[i]);
    of_gate.at[i] = grad.gate;
    v.at[i] = grad.up;
  }
  StorePack<kSize>(f.out + begin, of_gate);
  StorePack<kSize>(f.second + begin, v);
}

// A thread finishes one pack of a row.
template <typename P, typename B, typename S, int kSize>
__global__ void __launch_bounds__(kThreads)
    FinishKernel(int64_t elements, int64_t columns, Finishing<S> f, const P* product,
                 const B* bias) {
  const int64_t begin = GlobalThread() * kSize;
  if (begin >= elements) return;
  Floats<kSize> v = {};
  if (product != nullptr) v = LoadPack<kSize>(product + begin);
  if (bias != nullptr) {
    const Floats<kSize> b = LoadPack<kSize>(bias + begin % columns);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] += b.at[i];
  }
  if (f.then == Then::kAdd) {
    const Floats<kSize> x = LoadPack<kSize>(f.other + begin);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] += x.at[i];
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) v.at[i] = Wide(Narrow<S>(v.at[i]));
  if (f.then == Then::kGated || f.then == Then::kGatedGrad) {
    f.silu ? FinishGated<kSize, Silu>(f, begin, v) : FinishGated<kSize, Gelu>(f, begin, v);
    return;
  }
  if (f.then == Then::kGeluGrad) {
    const Floats<kSize> x = LoadPack<kSize>(f.other + begin);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] = GeluGrad()(v.at[i], x.at[i]);
  }
  StorePack<kSize>(f.out + begin, v);
  if (f.then == Then::kGelu) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] = Gelu()(v.at[i]);
    StorePack<kSize>(f.second + begin, v);
  }
}

template <typename P, typename B, typename S>
absl::Status Finish(const FinishSpec& spec, const FinishOperands& o, cudaStream_t stream) {
  const int64_t elements = spec.rows * spec.columns;
  if (elements == 0) return absl::OkStatus();
  const Finishing<S> finishing{spec.then,
                               spec.silu,
                               static_cast<const S*>(o.other),
                               static_cast<const S*>(o.third),
                               static_cast<S*>(o.out),
                               static_cast<S*>(o.second)};
  return ForPacks<PackSize<P, B, S>()>(spec.columns, [&]<int kSize>(Size<kSize>) {
    return Launch("finish_product", &FinishKernel<P, B, S, kSize>, ElementsShape(elements, kSize),
                  stream, elements, spec.columns, finishing, static_cast<const P*>(o.product),
                  static_cast<const B*>(o.bias));
  });
}

template <typename P, typename S>
absl::Status LaunchFinish(const FinishSpec& spec, const FinishOperands& o, cudaStream_t stream) {
  return spec.bias == DType::kBF16 ? Finish<P, Bf16, S>(spec, o, stream)
                                   : Finish<P, float, S>(spec, o, stream);
}

}  // namespace

absl::Status FinishProduct(const FinishSpec& spec, const FinishOperands& operands,
                           cudaStream_t stream) {
  if (spec.out == DType::kF32) return LaunchFinish<float, float>(spec, operands, stream);
  return spec.product == DType::kF32 ? LaunchFinish<float, Bf16>(spec, operands, stream)
                                     : LaunchFinish<Bf16, Bf16>(spec, operands, stream);
}

}  // namespace oneflow::cuda
