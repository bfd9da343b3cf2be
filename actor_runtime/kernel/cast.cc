// cast: f32 rounded to bf16, or bf16 as f32. f64 stays f64, so that gradient checks compute wide
// throughout.
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// y = convert(x), of one entry of VectorKernels<T, S>.
template <typename From, typename To>
Kernel CastKernel(void (*convert)(const From*, To*, int64_t, bool), int64_t n) {
  return [convert, n](const KernelCall& call) {
    const From* x = call.input<From>(0);
    To* y = call.output<To>(0);
    ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
      convert(x + begin, y + begin, end - begin, call.accumulate);
    });
    return absl::OkStatus();
  };
}

absl::StatusOr<Kernel> MakeCast(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  const bool narrow_in = In(s, 0).dtype == DType::kBF16;
  return ForStored(s, narrow_in ? DType::kBF16 : s.out[0].dtype,
                   [&](auto zero, auto stored) -> Kernel {
                     using T = decltype(zero);
                     using S = decltype(stored);
                     return narrow_in ? CastKernel<S, T>(VectorFor<T, S>(s.isa)->widen, n)
                                      : CastKernel<T, S>(VectorFor<T, S>(s.isa)->round, n);
                   });
}

}  // namespace

KernelTable CastTable() {
  static constexpr KernelEntry kTable[] = {
      {"cast", MakeCast},
  };
  return kTable;
}

}  // namespace oneflow
