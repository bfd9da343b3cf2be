// a[..., m, k] b[..., k, n]: a task is the product of one index of the leading dimensions, made by
// one thread.
#include <type_traits>

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

struct BatchShape {
  ProductSpec product;
  int64_t thread_bytes;  // a thread's part of the workspace
};

BatchShape MakeShape(const KernelSetup& s) {
  const ProductSpec p = FindProduct(s);
  return {p, p.Empty() ? 0 : ProductWorkspace(p.m, p.n, p.k)};
}

template <typename T>
Kernel BatchMatmul(const BatchShape& shape, Isa isa) {
  return [s = shape, &kernels = *ProductKernelsFor<T>(isa)](const KernelCall& call) {
    if (std::is_same_v<T, Bf16> && call.accumulate) {
      return absl::InternalError("a product that is rounded is not added up");
    }
    const T *a = call.input<T>(0), *b = call.input<T>(1);
    T* y = call.output<T>(0);
    call.pool->ParallelFor(static_cast<int>(s.product.batch), [&](int i, int thread) {
      const ProductSpec& p = s.product;
      const T *left = a + i * p.m * p.k, *right = b + i * p.k * p.n;
      const GemmArgs<T, T> g{
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .a = p.transpose_a ? Strided<T>{left, 1, p.m} : Strided<T>{left, p.k, 1},
          .b = p.transpose_b ? Strided<T>{right, 1, p.k} : Strided<T>{right, p.n, 1},
          .c = y + i * p.m * p.n,
          .c_row = p.n,
          .accumulate = call.accumulate};
      GemmSerial(kernels, g, call.workspace.data() + thread * s.thread_bytes);
    });
    return absl::OkStatus();
  };
}

absl::StatusOr<Kernel> MakeBatchMatmul(const KernelSetup& s) {
  const BatchShape shape = MakeShape(s);
  RETURN_IF_ERROR(NeedWorkspace(s, shape.thread_bytes * s.threads));
  return ForStored(s, s.out[0].dtype, [&](auto, auto stored) -> Kernel {
    return BatchMatmul<decltype(stored)>(shape, s.isa);
  });
}

}  // namespace

KernelTable BatchMatmulTable() { return {{"batch_matmul", MakeBatchMatmul}}; }

}  // namespace oneflow
