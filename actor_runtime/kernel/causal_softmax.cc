// Softmax of matrices of scores, of each row over what its position sees, and its gradient.
#include <algorithm>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

// The elements of a row of t after the first `seen`.
template <typename S>
void ClearUnseen(int64_t seen, int64_t t, bool accumulate, S* row) {
  if (!accumulate) std::fill(row + seen, row + t, S{});
}

absl::StatusOr<Kernel> MakeCausalSoftmax(const KernelSetup& s) {
  const int64_t thread_bytes = SoftmaxWorkspacePerThread(In(s, 0).local());
  RETURN_IF_ERROR(NeedWorkspace(s, thread_bytes * s.threads));
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t t = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    const T scale = static_cast<T>(DoubleAttr(s, "scale", 1));
    return [=, &v = *VectorFor<T, S>(s.isa), &wide = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      S* y = call.output<S>(0);
      const int64_t piece = RowPiece(t);
      call.pool->ParallelFor(static_cast<int>((rows + piece - 1) / piece), [&](int i, int thread) {
        T* row = reinterpret_cast<T*>(call.workspace.data() + thread * thread_bytes);
        for (int64_t r = i * piece; r < std::min(rows, (i + 1) * piece); ++r) {
          const int64_t seen = r % t + 1;
          T max;
          v.widen(x + r * t, row, seen, /*accumulate=*/false);
          const T sum = wide.softmax_row(row, scale, seen, &max);
          wide.scale(T(1) / sum, row, seen);
          v.round(row, y + r * t, seen, call.accumulate);
          ClearUnseen(seen, t, call.accumulate, y + r * t);
        }
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeCausalSoftmaxGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t t = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    const T scale = static_cast<T>(DoubleAttr(s, "scale", 1));
    return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S *dy = call.input<S>(0), *y = call.input<S>(1);
      S* dx = call.output<S>(0);
      ForPieces(call, rows, RowPiece(t), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t at = r * t, seen = r % t + 1;
          v.softmax_grad_row(dy + at, y + at, scale, dx + at, seen, call.accumulate);
          ClearUnseen(seen, t, call.accumulate, dx + at);
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable CausalSoftmaxTable() {
  return {{"causal_softmax", MakeCausalSoftmax}, {"causal_softmax_grad", MakeCausalSoftmaxGrad}};
}

}  // namespace oneflow
