// a[..., m, k] b[k, n] and the gradient of b: products over all leading dimensions at once.
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/product.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeMatmul(const KernelSetup& s) { return MakeProduct(s, MatmulProduct(s)); }

absl::StatusOr<Kernel> MakeMatmulGradB(const KernelSetup& s) {
  return MakeProduct(s, MatmulGradBProduct(s));
}

}  // namespace oneflow
