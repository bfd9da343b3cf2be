// Attention and its gradients, on q, k and v or on a packed qkv. A task is one group of heads of
// one sequence; of the gradient of sinks, one head of all sequences.
#include <array>
#include <cmath>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/qkv_strides.h"
#include "actor_runtime/kernel/simd/attention_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

// Sizes of a local piece, and the positions of its groups.
struct AttentionShape {
  QkvSizes n;
  QkvStrides qkv;  // of the inputs, and of their gradients
  bool packed;     // qkv is one tensor
  int where;       // inputs that say where queries and keys are: positions, then documents
  int64_t window;
  double scale, cap;     // of scores
  int64_t thread_bytes;  // a thread's part of the workspace

  int tasks() const { return static_cast<int>(n.b * n.g); }
  // For task i: where its group starts in out, in lse.
  int64_t out_row() const { return n.g * n.r * n.d; }
  int64_t OutAt(int64_t i) const { return i / n.g * n.t * out_row() + i % n.g * n.r * n.d; }
  int64_t LseAt(int64_t i) const { return i * n.r * n.t; }

  // The addresses of q, k and v of task i, or of their gradients; `at` gives the tensors.
  template <typename S, typename At>
  std::array<S*, 3> Parts(int64_t i, At at) const {
    std::array<S*, 3> parts;
    for (int part = 0; part < 3; ++part) {
      parts[part] = at(packed ? 0 : part) + qkv.At(part, i / n.g, i % n.g);
    }
    return parts;
  }

  // Task i, with its queries, keys and values from input `first` on, and input `base` the first of
  // those that say where they are.
  template <typename S>
  AttentionGroup<S> Group(const KernelCall& call, int64_t i, int first, int base) const {
    const auto [q, k, v] = Parts<const S>(i, [&](int p) { return call.input<S>(first + p); });
    AttentionGroup<S> group{q, k, v, qkv.row[0], qkv.row[1], n.r, n.t, n.s, n.d, scale, cap};
    group.visibility.window = window;
    const auto numbers = [&](int which, int64_t of_sample) {
      return which < where ? call.input<int32_t>(base + which) + i / n.g * of_sample : nullptr;
    };
    group.visibility.q_positions = numbers(0, n.t);
    group.visibility.k_positions = numbers(1, n.s);
    group.visibility.q_documents = numbers(2, n.t);
    group.visibility.k_documents = numbers(3, n.s);
    return group;
  }

  // task(i, scratch) for each task.
  template <typename T, typename F>
  void ForGroups(const KernelCall& call, F task) const {
    call.pool->ParallelFor(tasks(), [&](int i, int thread) {
      task(i, reinterpret_cast<T*>(call.workspace.data() + thread * thread_bytes));
    });
  }
};

// Input `first` is the first of queries, keys and values, and `base` the number of inputs without
// positions and documents.
absl::StatusOr<AttentionShape> FindAttentionShape(const KernelSetup& s, bool packed, int first,
                                                  int base) {
  AttentionShape a{};
  a.packed = packed;
  a.where = static_cast<int>(s.in.size()) - base;
  a.window = IntAttr(s, "window");
  const Dims& q = In(s, first).local();
  if (packed) {
    const bool parts_first = BoolAttr(s, "parts_first");
    a.n = PackedSizes(q, parts_first);
    a.qkv = PackedStrides(a.n, parts_first);
  } else {
    a.n = SeparateSizes(q, In(s, first + 1).local());
    a.qkv = SeparateStrides(a.n);
  }
  const double scale = DoubleAttr(s, "scale");
  a.scale = s.out[0].dtype == DType::kF64 ? FindScale<double>(scale, a.n.d)
                                          : FindScale<float>(scale, a.n.d);
  a.cap = DoubleAttr(s, "soft_cap");
  a.thread_bytes = AttentionWorkspacePerThread(a.n.s, a.n.d);
  RETURN_IF_ERROR(NeedWorkspace(s, a.thread_bytes * s.threads));
  return a;
}

absl::StatusOr<Kernel> MakeForward(const KernelSetup& s, bool packed) {
  const int parts = packed ? 1 : 3;
  const bool has_sinks = BoolAttr(s, "sinks");
  const int base = parts + (has_sinks ? 1 : 0);
  ASSIGN_OR_RETURN(const AttentionShape shape, FindAttentionShape(s, packed, 0, base));
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [a = shape, parts, has_sinks, base,
            &kernels = *AttentionKernelsFor<T, S>(s.isa)](const KernelCall& call) {
      S* out = call.output<S>(0);
      T* lse = call.output<T>(1);
      a.ForGroups<T>(call, [&](int64_t i, T* scratch) {
        const T* sinks = has_sinks ? call.input<T>(parts) + i % a.n.g * a.n.r : nullptr;
        kernels.forward(a.Group<S>(call, i, 0, base), sinks, out + a.OutAt(i), a.out_row(),
                        lse + a.LseAt(i), call.accumulate, scratch);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeBackward(const KernelSetup& s, bool packed) {
  const int out_input = packed ? 2 : 4, base = out_input + 2;
  ASSIGN_OR_RETURN(const AttentionShape shape, FindAttentionShape(s, packed, 1, base));
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [a = shape, out_input, base, &kernels = *AttentionKernelsFor<T, S>(s.isa),
            name = s.name](const KernelCall& call) -> absl::Status {
      if (call.accumulate)
        return absl::InternalError(name + ": an activation's gradient is not added up");
      const S *dout = call.input<S>(0), *out = call.input<S>(out_input);
      const T* lse = call.input<T>(out_input + 1);
      a.ForGroups<T>(call, [&](int64_t i, T* scratch) {
        const auto [dq, dk, dv] = a.Parts<S>(i, [&](int p) { return call.output<S>(p); });
        kernels.backward(a.Group<S>(call, i, 1, base), dout + a.OutAt(i), out + a.OutAt(i),
                         a.out_row(), lse + a.LseAt(i), dq, dk, dv, scratch);
      });
      return absl::OkStatus();
    };
  });
}

// dout, out, lse, sinks -> -Σ exp(sink - lse) (dout . out) of each head, over samples and queries
// in order.
absl::StatusOr<Kernel> MakeAttentionSinksGrad(const KernelSetup& s) {
  const Dims& q = In(s, 1).local();
  const QkvSizes n = SeparateSizes(q, q);
  return ForStored(s, In(s, 1).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [n](const KernelCall& call) {
      const int64_t heads = n.g * n.r;
      const S *dout = call.input<S>(0), *out = call.input<S>(1);
      const T *lse = call.input<T>(2), *sinks = call.input<T>(3);
      T* dsinks = call.output<T>(0);
      call.pool->ParallelFor(static_cast<int>(heads), [&](int head, int) {
        double sum = 0;
        for (int64_t row = 0; row < n.b * n.t; ++row) {
          const int64_t at = (row * heads + head) * n.d;
          T dot = 0;
          for (int64_t i = 0; i < n.d; ++i) dot += Widen(dout[at + i]) * Widen(out[at + i]);
          const T row_lse = lse[(row / n.t * heads + head) * n.t + row % n.t];
          sum -= std::exp(sinks[head] - row_lse) * dot;
        }
        dsinks[head] = T(call.accumulate ? dsinks[head] + sum : sum);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeAttention(const KernelSetup& s) { return MakeForward(s, false); }
absl::StatusOr<Kernel> MakePackedAttention(const KernelSetup& s) { return MakeForward(s, true); }
absl::StatusOr<Kernel> MakeAttentionGrad(const KernelSetup& s) { return MakeBackward(s, false); }
absl::StatusOr<Kernel> MakePackedAttentionGrad(const KernelSetup& s) {
  return MakeBackward(s, true);
}

}  // namespace

KernelTable AttentionTable() {
  return {{"attention", MakeAttention},
          {"attention_grad", MakeAttentionGrad},
          {"attention_sinks_grad", MakeAttentionSinksGrad},
          {"packed_attention", MakePackedAttention},
          {"packed_attention_grad", MakePackedAttentionGrad}};
}

}  // namespace oneflow
