#include "actor_runtime/cuda/kernel/finish_product.h"

#include "actor_runtime/cuda/kernel/gelu.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {
namespace {

using Then = ProductSpec::Then;

// A thread finishes one pack of a row.
template <typename P, typename B, typename S, int kSize>
__global__ void __launch_bounds__(kThreads)
    FinishKernel(int64_t elements, int64_t columns, Then then, const P* product, const B* bias,
                 const S* other, S* out, S* gelu) {
  const int64_t begin = GlobalThread() * kSize;
  if (begin >= elements) return;
  Floats<kSize> v = {};
  if (product != nullptr) v = LoadPack<kSize>(product + begin);
  if (bias != nullptr) {
    const Floats<kSize> b = LoadPack<kSize>(bias + begin % columns);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] += b.at[i];
  }
  if (then == Then::kAdd) {
    const Floats<kSize> x = LoadPack<kSize>(other + begin);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] += x.at[i];
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) v.at[i] = Wide(Narrow<S>(v.at[i]));
  if (then == Then::kGeluGrad) {
    const Floats<kSize> x = LoadPack<kSize>(other + begin);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] = GeluGrad()(v.at[i], x.at[i]);
  }
  StorePack<kSize>(out + begin, v);
  if (then == Then::kGelu) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] = Gelu()(v.at[i]);
    StorePack<kSize>(gelu + begin, v);
  }
}

template <typename P, typename B, typename S>
absl::Status Finish(const FinishSpec& spec, const FinishOperands& o, cudaStream_t stream) {
  const int64_t elements = spec.rows * spec.columns;
  if (elements == 0) return absl::OkStatus();
  return ForPacks<PackSize<P, B, S>()>(spec.columns, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    return Launch("finish_product", &FinishKernel<P, B, S, kSize>, ElementsShape(elements, kSize),
                  stream, elements, spec.columns, spec.then, static_cast<const P*>(o.product),
                  static_cast<const B*>(o.bias), static_cast<const S*>(o.other),
                  static_cast<S*>(o.out), static_cast<S*>(o.gelu));
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
