// Copies between a packed tensor of queries, keys and values and the three. A thread copies a pack.
// Internal to cuda/kernel.
//
//   struct HeadSizes { int64_t d; int64_t elements() const; __device__ PartElement Find(int64_t)
//   const; }; return MakeSplitParts("split_heads", setup, HeadSizes(...));   // packed -> q, k, v
//
// A layout says where the elements of a local piece are: `d` of them are side by side in both.
#pragma once

#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {

// Queries, keys and values.
template <typename S>
struct QkvParts {
  S *q, *k, *v;
  // By index: an array of arguments would be copied to the stack.
  __device__ S* at(int part) const { return part == 0 ? q : part == 1 ? k : v; }
};

// An element of the packed tensor is element `at` of part 0, 1 or 2.
struct PartElement {
  int part;
  int64_t at;
};

template <int kSize, typename S, typename Layout>
__global__ void __launch_bounds__(kThreads)
    SplitPartsKernel(Layout s, int64_t n, bool accumulate, QkvParts<S> parts, const S* qkv) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  const PartElement element = s.Find(i);
  PutPack<kSize>(parts.at(element.part) + element.at, LoadPack<kSize>(qkv + i), accumulate);
}

template <int kSize, typename S, typename Layout>
__global__ void __launch_bounds__(kThreads)
    JoinPartsKernel(Layout s, int64_t n, bool accumulate, S* qkv, QkvParts<const S> parts) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  const PartElement element = s.Find(i);
  PutPack<kSize>(qkv + i, LoadPack<kSize>(parts.at(element.part) + element.at), accumulate);
}

template <typename Layout>
absl::StatusOr<Kernel> MakeSplitParts(const char* name, const KernelSetup& setup,
                                      const Layout& layout) {
  return ForStoredAs(setup, setup.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(layout.d, [&]<int kSize>(Size<kSize>) {
      return Kernel([name, layout, n = layout.elements()](const KernelCall& call) {
        if (n == 0) return absl::OkStatus();
        const QkvParts<S> parts{call.output<S>(0), call.output<S>(1), call.output<S>(2)};
        return Launch(name, &SplitPartsKernel<kSize, S, Layout>, ElementsShape(n, kSize),
                      FindStream(call), layout, n, call.accumulate, parts, call.input<S>(0));
      });
    });
  });
}

template <typename Layout>
absl::StatusOr<Kernel> MakeJoinParts(const char* name, const KernelSetup& setup,
                                     const Layout& layout) {
  return ForStoredAs(setup, setup.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(layout.d, [&]<int kSize>(Size<kSize>) {
      return Kernel([name, layout, n = layout.elements()](const KernelCall& call) {
        if (n == 0) return absl::OkStatus();
        const QkvParts<const S> parts{call.input<S>(0), call.input<S>(1), call.input<S>(2)};
        return Launch(name, &JoinPartsKernel<kSize, S, Layout>, ElementsShape(n, kSize),
                      FindStream(call), layout, n, call.accumulate, call.output<S>(0), parts);
      });
    });
  });
}

}  // namespace oneflow::cuda
