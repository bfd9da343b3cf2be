// rms_norm and its gradients. x and dx are stored as X, and y and dy as Y: each T, or narrow.
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// make(loops) with the RmsNormKernels for rows stored as `x` and `y` say.
template <typename Make>
absl::StatusOr<Kernel> ForNormRows(const KernelSetup& s, DType x, DType y, Make make) {
  const bool narrow_x = x == DType::kBF16, narrow_y = y == DType::kBF16;
  return ForStored(s, narrow_x ? x : y, [&](auto zero, auto stored) -> Kernel {
    const auto& v = *VectorFor<decltype(zero), decltype(stored)>(s.isa);
    if (!narrow_x) return make(v.rms_norm);
    return narrow_y ? make(v.rms_norm_narrow) : make(v.rms_norm_narrow_x);
  });
}

template <typename T, typename X, typename Y>
Kernel Forward(const KernelSetup& s, const RmsNormKernels<T, X, Y>& loops) {
  const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
  const T epsilon = static_cast<T>(DoubleAttr(s, "epsilon", 1e-5));
  const T offset = static_cast<T>(DoubleAttr(s, "offset"));
  return [=, run = loops.forward](const KernelCall& call) {
    const X* x = call.input<X>(0);
    const T* gamma = call.input<T>(1);
    Y* y = call.output<Y>(0);
    T* rstd = call.output<T>(1);
    ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      run(x + at, gamma, offset, epsilon, y + at, rstd + begin, end - begin, width);
    });
    return absl::OkStatus();
  };
}

template <typename T, typename X, typename Y>
Kernel GradInput(const KernelSetup& s, const RmsNormKernels<T, X, Y>& loops) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  const T offset = static_cast<T>(DoubleAttr(s, "offset"));
  return [=, run = loops.grad_input](const KernelCall& call) {
    const Y* dy = call.input<Y>(0);
    const X* x = call.input<X>(1);
    const T *gamma = call.input<T>(2), *rstd = call.input<T>(3);
    X* dx = call.output<X>(0);
    ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      run(dy + at, x + at, gamma, offset, rstd + begin, dx + at, end - begin, width,
          call.accumulate);
    });
    return absl::OkStatus();
  };
}

template <typename T, typename X, typename Y>
Kernel GradScale(const KernelSetup& s, const RmsNormKernels<T, X, Y>& loops) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  return [=, run = loops.grad_weight](const KernelCall& call) {
    const Y* dy = call.input<Y>(0);
    const X* x = call.input<X>(1);
    const T* rstd = call.input<T>(2);
    T* dgamma = call.output<T>(0);
    ForPieces(call, width, ColumnPiece(width), [&](int64_t begin, int64_t end) {
      run(dy, x, rstd, dgamma, rows, width, begin, end, call.accumulate);
    });
    return absl::OkStatus();
  };
}

absl::StatusOr<Kernel> MakeRmsNorm(const KernelSetup& s) {
  return ForNormRows(s, In(s, 0).dtype, s.out[0].dtype,
                     [&](const auto& loops) { return Forward(s, loops); });
}

absl::StatusOr<Kernel> MakeRmsNormGradInput(const KernelSetup& s) {
  return ForNormRows(s, In(s, 1).dtype, In(s, 0).dtype,
                     [&](const auto& loops) { return GradInput(s, loops); });
}

absl::StatusOr<Kernel> MakeRmsNormGradWeight(const KernelSetup& s) {
  return ForNormRows(s, In(s, 1).dtype, In(s, 0).dtype,
                     [&](const auto& loops) { return GradScale(s, loops); });
}

}  // namespace

KernelTable RmsNormTable() {
  return {{"rms_norm", MakeRmsNorm},
          {"rms_norm_grad_input", MakeRmsNormGradInput},
          {"rms_norm_grad_weight", MakeRmsNormGradWeight}};
}

}  // namespace oneflow
