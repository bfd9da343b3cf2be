// Layer norm and its gradients. Rows of the residual stream, x and dx, are stored as X: T, or as
// narrow as S.
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// `run` is the loop over rows of VectorKernels, for these T, X and S.
template <typename T, typename X, typename S, typename Run>
Kernel LayerNorm(const KernelSetup& s, Run run) {
  const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
  const T epsilon = static_cast<T>(DoubleAttr(s, "epsilon", 1e-5));
  const bool has_beta = s.in.size() > 2;
  return [=](const KernelCall& call) {
    const X* x = call.input<X>(0);
    const T *gamma = call.input<T>(1), *beta = has_beta ? call.input<T>(2) : nullptr;
    S* y = call.output<S>(0);
    T *mean = call.output<T>(1), *rstd = call.output<T>(2);
    ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
      run(x + begin * width, gamma, beta, epsilon, y + begin * width, mean + begin, rstd + begin,
          end - begin, width);
    });
    return absl::OkStatus();
  };
}

template <typename T, typename X, typename S, typename Run>
Kernel LayerNormGradInput(const KernelSetup& s, Run run) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  return [=](const KernelCall& call) {
    const S* dy = call.input<S>(0);
    const X* x = call.input<X>(1);
    const T *gamma = call.input<T>(2), *mean = call.input<T>(3), *rstd = call.input<T>(4);
    X* dx = call.output<X>(0);
    ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
      const int64_t at = begin * width;
      run(dy + at, x + at, gamma, mean + begin, rstd + begin, dx + at, end - begin, width,
          call.accumulate);
    });
    return absl::OkStatus();
  };
}

template <typename T, typename X, typename S, typename Run>
Kernel LayerNormGradWeight(const KernelSetup& s, Run run) {
  const int64_t width = LastDim(In(s, 1)), rows = CountRows(In(s, 1));
  const bool has_beta = s.out.size() > 1;
  return [=](const KernelCall& call) {
    const S* dy = call.input<S>(0);
    const X* x = call.input<X>(1);
    const T *mean = call.input<T>(2), *rstd = call.input<T>(3);
    T *dgamma = call.output<T>(0), *dbeta = has_beta ? call.output<T>(1) : nullptr;
    ForPieces(call, width, ColumnPiece(width), [&](int64_t begin, int64_t end) {
      run(dy, x, mean, rstd, dgamma, dbeta, rows, width, begin, end, call.accumulate);
    });
    return absl::OkStatus();
  };
}

bool IsNarrow(const Port& port) { return port.dtype == DType::kBF16; }

absl::StatusOr<Kernel> MakeLayerNorm(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const VectorKernels<T, S>& v = *VectorFor<T, S>(s.isa);
    return IsNarrow(In(s, 0)) ? LayerNorm<T, S, S>(s, v.layer_norm_narrow)
                              : LayerNorm<T, T, S>(s, v.layer_norm);
  });
}

absl::StatusOr<Kernel> MakeLayerNormGradInput(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const VectorKernels<T, S>& v = *VectorFor<T, S>(s.isa);
    return IsNarrow(In(s, 1)) ? LayerNormGradInput<T, S, S>(s, v.layer_norm_grad_input_narrow)
                              : LayerNormGradInput<T, T, S>(s, v.layer_norm_grad_input);
  });
}

absl::StatusOr<Kernel> MakeLayerNormGradWeight(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const VectorKernels<T, S>& v = *VectorFor<T, S>(s.isa);
    return IsNarrow(In(s, 1)) ? LayerNormGradWeight<T, S, S>(s, v.layer_norm_grad_weight_narrow)
                              : LayerNormGradWeight<T, T, S>(s, v.layer_norm_grad_weight);
  });
}

}  // namespace

KernelTable LayerNormTable() {
  return {{"layer_norm", MakeLayerNorm},
          {"layer_norm_grad_input", MakeLayerNormGradInput},
          {"layer_norm_grad_weight", MakeLayerNormGradWeight}};
}

}  // namespace oneflow
