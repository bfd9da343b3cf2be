// a[..., m, k] b[k, n] and the gradient of b: products over all leading dimensions at once.
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/product.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeMatmul(const KernelSetup& s) {
  const Dims &a = In(s, 0).local(), &b = In(s, 1).local();
  ProductSpec p{.transpose_a = BoolAttr(s, "transpose_a"),
                .transpose_b = BoolAttr(s, "transpose_b")};
  p.m = p.transpose_a ? a[1] : RowsOf(In(s, 0));
  p.k = p.transpose_b ? b[1] : b[0];
  p.n = p.transpose_b ? b[0] : b[1];
  return MakeProduct(s, p);
}

// u[..., p], v[..., q] -> uT v.
absl::StatusOr<Kernel> MakeMatmulGradB(const KernelSetup& s) {
  const Port &u = In(s, 0), &v = In(s, 1);
  return MakeProduct(s, {.m = LastDim(u), .n = LastDim(v), .k = RowsOf(u), .transpose_a = true});
}

}  // namespace oneflow
