// The gradient of a bias: sums of columns.
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

absl::StatusOr<Kernel> MakeLinearGradBias(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
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

}  // namespace

KernelTable LinearGradBiasTable() { return {{"linear_grad_bias", MakeLinearGradBias}}; }

}  // namespace oneflow
