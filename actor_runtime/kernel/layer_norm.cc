#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {

// y may be narrower than x and the statistics; in the gradients, dy.
absl::StatusOr<Kernel> MakeLayerNorm(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    const int64_t width = LastDim(In(s, 0)), rows = RowsOf(In(s, 0));
    const T epsilon = static_cast<T>(DoubleAttr(s, "epsilon", 1e-5));
    const bool has_beta = s.in.size() > 2;
    return [=, &v = Vector<T, S>()](const KernelCall& call) {
      const T *x = call.input<T>(0), *gamma = call.input<T>(1);
      const T* beta = has_beta ? call.input<T>(2) : nullptr;
      S* y = call.output<S>(0);
      T *mean = call.output<T>(1), *rstd = call.output<T>(2);
      ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
        v.layer_norm(x + begin * width, gamma, beta, epsilon, y + begin * width, mean + begin,
                     rstd + begin, end - begin, width);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeLayerNormGradInput(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    const int64_t width = LastDim(In(s, 1)), rows = RowsOf(In(s, 1));
    return [=, &v = Vector<T, S>()](const KernelCall& call) {
      const S* dy = call.input<S>(0);
      const T *x = call.input<T>(1), *gamma = call.input<T>(2);
      const T *mean = call.input<T>(3), *rstd = call.input<T>(4);
      T* dx = call.output<T>(0);
      ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
        const int64_t at = begin * width;
        v.layer_norm_grad_input(dy + at, x + at, gamma, mean + begin, rstd + begin, dx + at,
                                end - begin, width, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeLayerNormGradWeight(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    const int64_t width = LastDim(In(s, 1)), rows = RowsOf(In(s, 1));
    const bool has_beta = s.out.size() > 1;
    return [=, &v = Vector<T, S>()](const KernelCall& call) {
      const S* dy = call.input<S>(0);
      const T* x = call.input<T>(1);
      const T *mean = call.input<T>(2), *rstd = call.input<T>(3);
      T* dgamma = call.output<T>(0);
      T* dbeta = has_beta ? call.output<T>(1) : nullptr;
      ForPieces(call, width, ColumnPiece(width), [&](int64_t begin, int64_t end) {
        v.layer_norm_grad_weight(dy, x, mean, rstd, dgamma, dbeta, rows, width, begin, end,
                                 call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
