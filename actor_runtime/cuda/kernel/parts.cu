// Parts of a tensor along a dimension, taken and joined: copies of runs. A thread copies a pack; a
// launch copies a part.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/part_rows.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

// Where element i of part `index` is in the tensor with all parts.
__device__ inline int64_t FindElement(const PartRows& p, int64_t index, int64_t i) {
  return (i / p.run * p.parts + index) * p.run + i % p.run;
}

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    TakePartKernel(PartRows p, int64_t n, int64_t index, S* part, const S* all) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  PutPack<kSize>(part + i, LoadPack<kSize>(all + FindElement(p, index, i)), false);
}

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    JoinPartKernel(PartRows p, int64_t n, int64_t index, S* all, const S* part) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  PutPack<kSize>(all + FindElement(p, index, i), LoadPack<kSize>(part + i), false);
}

absl::StatusOr<Kernel> MakeTake(const KernelSetup& setup) {
  const PartRows p = FindPartRows(setup, In(setup, 0), IntAttr(setup, "parts"));
  return ForStoredAs(setup, setup.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(p.run, [&]<int kSize>(Size<kSize>) {
      return Kernel([p, n = p.elements(), index = IntAttr(setup, "index")](const KernelCall& call) {
        if (n == 0) return absl::OkStatus();
        return Launch("take_part", &TakePartKernel<kSize, S>, ElementsShape(n, kSize),
                      FindStream(call), p, n, index, call.output<S>(0), call.input<S>(0));
      });
    });
  });
}

absl::StatusOr<Kernel> MakeJoin(const KernelSetup& setup) {
  const PartRows p = FindPartRows(setup, setup.out[0], static_cast<int64_t>(setup.in.size()));
  return ForStoredAs(setup, setup.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(p.run, [&]<int kSize>(Size<kSize>) {
      return Kernel([p, n = p.elements()](const KernelCall& call) -> absl::Status {
        for (int64_t i = 0; n > 0 && i < p.parts; ++i) {
          RETURN_IF_ERROR(Launch("join_parts", &JoinPartKernel<kSize, S>, ElementsShape(n, kSize),
                                 FindStream(call), p, n, i, call.output<S>(0),
                                 call.input<S>(static_cast<int>(i))));
        }
        return absl::OkStatus();
      });
    });
  });
}

}  // namespace

KernelTable PartsTable() { return {{"join_parts", MakeJoin}, {"take_part", MakeTake}}; }

}  // namespace oneflow::cuda
