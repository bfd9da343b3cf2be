// a[..., m, k] b[..., k, n]: a product for each index of the leading dimensions, in one call.
#include "actor_runtime/cuda/kernel/product.h"
#include "actor_runtime/cuda/kernel/products.h"

namespace oneflow::cuda {

absl::StatusOr<Kernel> MakeBatchMatmul(const KernelSetup& s, const Libraries& libraries) {
  return MakeProduct(s, BatchMatmulProduct(s), libraries);
}

}  // namespace oneflow::cuda
