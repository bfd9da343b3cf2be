// Causal attention and its gradient, on qkv[b, t, 3, h, d]. A task is one head of one sequence.
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/simd/attention_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

// Sizes of a local piece, and the positions of its heads.
struct AttentionShape {
  int64_t b, t, h, d;
  int64_t thread_bytes;  // a thread's part of the workspace

  int64_t out_row() const { return h * d; }  // from one position to the next
  int64_t qkv_row() const { return 3 * out_row(); }
  // For task i: where its head starts in qkv, in out, in lse[b, h, t].
  int64_t QkvAt(int64_t i) const { return i / h * t * qkv_row() + i % h * d; }
  int64_t OutAt(int64_t i) const { return i / h * t * out_row() + i % h * d; }
  int64_t LseAt(int64_t i) const { return i * t; }

  template <typename S>
  AttentionHead<S> Head(const S* qkv, int64_t i) const {
    const S* q = qkv + QkvAt(i);
    return {q, q + out_row(), q + 2 * out_row(), qkv_row(), t, d};
  }

  // head(i, scratch) for each head.
  template <typename T, typename F>
  void ForHeads(const KernelCall& call, F head) const {
    call.pool->ParallelFor(static_cast<int>(b * h), [&](int i, int thread) {
      head(i, reinterpret_cast<T*>(call.workspace.data() + thread * thread_bytes));
    });
  }
};

absl::StatusOr<AttentionShape> FindAttentionShape(const KernelSetup& s, const Dims& qkv) {
  AttentionShape a{qkv[0], qkv[1], qkv[3], qkv[4], AttentionWorkspacePerThread(qkv[1], qkv[4])};
  RETURN_IF_ERROR(NeedWorkspace(s, a.thread_bytes * s.threads));
  return a;
}

}  // namespace

absl::StatusOr<Kernel> MakeCausalAttention(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const AttentionShape shape, FindAttentionShape(s, In(s, 0).local()));
  return ForStored(s, s.out[0].dtype, [&](auto wide, auto stored) -> Kernel {
    using T = decltype(wide);
    using S = decltype(stored);
    return [a = shape, &kernels = *AttentionKernelsFor<T, S>(s.isa)](const KernelCall& call) {
      const S* qkv = call.input<S>(0);
      S* out = call.output<S>(0);
      T* lse = call.output<T>(1);
      a.ForHeads<T>(call, [&](int64_t i, T* scratch) {
        kernels.forward(a.Head(qkv, i), out + a.OutAt(i), a.out_row(), lse + a.LseAt(i),
                        call.accumulate, scratch);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeCausalAttentionGrad(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const AttentionShape shape, FindAttentionShape(s, In(s, 1).local()));
  return ForStored(s, s.out[0].dtype, [&](auto wide, auto stored) -> Kernel {
    using T = decltype(wide);
    using S = decltype(stored);
    return [a = shape, &kernels = *AttentionKernelsFor<T, S>(s.isa),
            name = s.name](const KernelCall& call) -> absl::Status {
      if (call.accumulate)
        return absl::InternalError(name + ": an activation's gradient is not added up");
      const S *dout = call.input<S>(0), *qkv = call.input<S>(1), *out = call.input<S>(2);
      const T* lse = call.input<T>(3);
      S* dqkv = call.output<S>(0);
      a.ForHeads<T>(call, [&](int64_t i, T* scratch) {
        S* dq = dqkv + a.QkvAt(i);
        kernels.backward(a.Head(qkv, i), dout + a.OutAt(i), out + a.OutAt(i), a.out_row(),
                         lse + a.LseAt(i), dq, dq + a.out_row(), dq + 2 * a.out_row(), scratch);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
