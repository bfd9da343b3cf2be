// a[..., m, k] b[k, n] and the gradient of b: products over all leading dimensions at once.
#include "actor_runtime/cuda/kernel/product.h"
#include "actor_runtime/cuda/kernel/products.h"

namespace oneflow::cuda {

absl::StatusOr<Kernel> MakeMatmul(const KernelSetup& s, const Libraries& libraries) {
  return MakeProduct(s, {1, MatmulProduct(s)}, libraries);
}

absl::StatusOr<Kernel> MakeMatmulGradB(const KernelSetup& s, const Libraries& libraries) {
  return MakeProduct(s, {1, MatmulGradBProduct(s)}, libraries);
}

}  // namespace oneflow::cuda
