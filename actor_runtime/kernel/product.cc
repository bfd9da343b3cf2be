#include "actor_runtime/kernel/product.h"

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/workspace.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const ProductSpec& product) {
  const bool empty = product.m == 0 || product.n == 0 || product.k == 0;  // then no block is packed
  RETURN_IF_ERROR(NeedWorkspace(
      setup, empty ? 0 : ProductWorkspace(product.m, product.n, product.k, setup.threads)));
  return ForFloats(setup, setup.out[0].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return [p = product, &v = Vector<T>()](const KernelCall& call) {
      GemmArgs<T> g{.m = p.m, .n = p.n, .k = p.k};
      const T *a = call.input<T>(p.a_input), *b = call.input<T>(p.b_input);
      g.a = p.transpose_a ? Strided<T>{a, 1, p.m} : Strided<T>{a, p.k, 1};
      g.b = p.transpose_b ? Strided<T>{b, 1, p.k} : Strided<T>{b, p.n, 1};
      g.c = call.output<T>(0);
      g.c_row = p.n;
      g.accumulate = call.accumulate;
      Gemm<T>(v, g, call.workspace.data(), *call.pool);
      if (p.bias_input >= 0) {
        const T* bias = call.input<T>(p.bias_input);
        ForPieces(call, p.m, RowPiece(p.n), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) v.accumulate(bias, g.c + r * p.n, p.n);
        });
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
