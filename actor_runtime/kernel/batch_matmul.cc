// a[..., m, k] b[..., k, n]: a task is the product of one index of the leading dimensions, made by
// one thread.
#include <string>
#include <type_traits>

#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

struct BatchShape {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  int64_t thread_bytes;  // a thread's part of the workspace
};

BatchShape ShapeOf(const KernelSetup& s) {
  const Dims &a = In(s, 0).local(), &y = s.out[0].local();
  const size_t row = a.size() - 2, column = a.size() - 1;
  BatchShape shape{.batch = ProductOf(y, 0, static_cast<int>(row)),
                   .m = y[row],
                   .n = y[column],
                   .transpose_a = BoolAttr(s, "transpose_a"),
                   .transpose_b = BoolAttr(s, "transpose_b")};
  shape.k = shape.transpose_a ? a[row] : a[column];
  const bool empty = Elements(In(s, 0)) == 0 || Elements(In(s, 1)) == 0;
  shape.thread_bytes = empty ? 0 : ProductWorkspace(shape.m, shape.n, shape.k);
  return shape;
}

template <typename T>
Kernel BatchMatmul(const BatchShape& shape, Isa isa) {
  return [s = shape, &kernels = *ProductKernelsFor<T>(isa)](const KernelCall& call) {
    if (std::is_same_v<T, Bf16> && call.accumulate) {
      return absl::InternalError("a product that is rounded is not added up");
    }
    const T *a = call.input<T>(0), *b = call.input<T>(1);
    T* y = call.output<T>(0);
    call.pool->ParallelFor(static_cast<int>(s.batch), [&](int i, int thread) {
      const T *left = a + i * s.m * s.k, *right = b + i * s.k * s.n;
      const GemmArgs<T, T> g{
          .m = s.m,
          .n = s.n,
          .k = s.k,
          .a = s.transpose_a ? Strided<T>{left, 1, s.m} : Strided<T>{left, s.k, 1},
          .b = s.transpose_b ? Strided<T>{right, 1, s.k} : Strided<T>{right, s.n, 1},
          .c = y + i * s.m * s.n,
          .c_row = s.n,
          .accumulate = call.accumulate};
      GemmSerial(kernels, g, call.workspace.data() + thread * s.thread_bytes);
    });
    return absl::OkStatus();
  };
}

}  // namespace

absl::StatusOr<Kernel> MakeBatchMatmul(const KernelSetup& s) {
  const BatchShape shape = ShapeOf(s);
  RETURN_IF_ERROR(NeedWorkspace(s, shape.thread_bytes * s.threads));
  return ForStored(s, s.out[0].dtype, [&](auto, auto stored) -> Kernel {
    return BatchMatmul<decltype(stored)>(shape, s.isa);
  });
}

}  // namespace oneflow
