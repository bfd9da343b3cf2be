// The linear family: products of matrices [leading, c], [leading, o] and [c, o] (or [o, c]).
#include "actor_runtime/cuda/kernel/product.h"
#include "actor_runtime/cuda/kernel/products.h"

namespace oneflow::cuda {

absl::StatusOr<Kernel> MakeLinear(const KernelSetup& s, const Libraries& libraries) {
  return MakeProduct(s, {1, LinearProduct(s)}, libraries);
}
absl::StatusOr<Kernel> MakeLinearAdd(const KernelSetup& s, const Libraries& libraries) {
  return MakeLinear(s, libraries);
}
absl::StatusOr<Kernel> MakeLinearGelu(const KernelSetup& s, const Libraries& libraries) {
  return MakeLinear(s, libraries);
}

absl::StatusOr<Kernel> MakeLinearGradInput(const KernelSetup& s, const Libraries& libraries) {
  return MakeProduct(s, {1, LinearGradInputProduct(s)}, libraries);
}
absl::StatusOr<Kernel> MakeLinearGeluGradInput(const KernelSetup& s, const Libraries& libraries) {
  return MakeLinearGradInput(s, libraries);
}

absl::StatusOr<Kernel> MakeLinearGradWeight(const KernelSetup& s, const Libraries& libraries) {
  return MakeProduct(s, {1, LinearGradWeightProduct(s)}, libraries);
}

}  // namespace oneflow::cuda
