// The linear family: products of matrices [leading, c], [leading, o] and [c, o] (or [o, c]), and
// the gradient of a bias.
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/product.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeLinear(const KernelSetup& s) { return MakeProduct(s, LinearProduct(s)); }
absl::StatusOr<Kernel> MakeLinearGelu(const KernelSetup& s) { return MakeLinear(s); }
absl::StatusOr<Kernel> MakeLinearAdd(const KernelSetup& s) { return MakeLinear(s); }

absl::StatusOr<Kernel> MakeLinearGradInput(const KernelSetup& s) {
  return MakeProduct(s, LinearGradInputProduct(s));
}
absl::StatusOr<Kernel> MakeLinearGeluGradInput(const KernelSetup& s) {
  return MakeLinearGradInput(s);
}

absl::StatusOr<Kernel> MakeLinearGradWeight(const KernelSetup& s) {
  return MakeProduct(s, LinearGradWeightProduct(s));
}

absl::StatusOr<Kernel> MakeLinearGradBias(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    const int64_t rows = DimsProduct(In(s, 0).local(), 0, static_cast<int>(IntAttr(s, "lead")));
    return
        [rows, width = Elements(s.out[0]), &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
          const S* dy = call.input<S>(0);
          T* dbias = call.output<T>(0);
          ForPieces(call, width, ColumnPiece(width), [&](int64_t begin, int64_t end) {
            v.column_sums(dy, dbias, rows, width, begin, end, call.accumulate);
          });
          return absl::OkStatus();
        };
  });
}

}  // namespace oneflow
