// Copies of rows: heads of qkv[b, t, 3, h, d] to matrices [t, d] and back, and two dimensions
// exchanged. A thread copies a pack.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/split_parts.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {
namespace {

// Sizes of a local piece of qkv.
struct HeadSizes {
  int64_t b, t, h, d;
  explicit HeadSizes(const Dims& qkv) : b(qkv[0]), t(qkv[1]), h(qkv[3]), d(qkv[4]) {}
  int64_t elements() const { return b * t * 3 * h * d; }
  __device__ PartElement Find(int64_t i) const {
    const int64_t c = i % d, row = i / d;
    const int64_t head = row % h, part = row / h % 3, position = row / (3 * h) % t;
    const int64_t batch = row / (3 * h * t);
    return {static_cast<int>(part), ((batch * h + head) * t + position) * d + c};
  }
};

// x[a, m, n, run] -> y[a, n, m, run].
struct SwapSizes {
  int64_t a, m, n, run;
  int64_t elements() const { return a * m * n * run; }
};

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    SwapDimsKernel(SwapSizes s, int64_t elements, bool accumulate, S* y, const S* x) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= elements) return;
  const int64_t c = i % s.run, row = i / s.run;
  const int64_t m = row % s.m, n = row / s.m % s.n, a = row / (s.m * s.n);
  const S* from = x + ((a * s.m + m) * s.n + n) * s.run + c;
  PutPack<kSize>(y + i, LoadPack<kSize>(from), accumulate);
}

absl::StatusOr<Kernel> MakeSplitHeads(const KernelSetup& s) {
  return MakeSplitParts("split_heads", s, HeadSizes(In(s, 0).local()));
}

absl::StatusOr<Kernel> MakeSplitHeadsGrad(const KernelSetup& s) {
  return MakeJoinParts("split_heads_grad", s, HeadSizes(s.out[0].local()));
}

absl::StatusOr<Kernel> MakeSwapDims(const KernelSetup& s) {
  const Dims& x = In(s, 0).local();
  const SwapSizes sizes{x[0], x[1], x[2], DimsProduct(x, 3)};
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(sizes.run, [&]<int kSize>(Size<kSize>) {
      return Kernel([sizes, n = sizes.elements()](const KernelCall& call) {
        if (n == 0) return absl::OkStatus();
        return Launch("swap_dims", &SwapDimsKernel<kSize, S>, ElementsShape(n, kSize),
                      FindStream(call), sizes, n, call.accumulate, call.output<S>(0),
                      call.input<S>(0));
      });
    });
  });
}

}  // namespace

KernelTable SplitHeadsTable() {
  return {{"split_heads", MakeSplitHeads},
          {"split_heads_grad", MakeSplitHeadsGrad},
          {"swap_dims", MakeSwapDims}};
}

}  // namespace oneflow::cuda
