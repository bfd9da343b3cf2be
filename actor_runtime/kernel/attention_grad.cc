// The gradient of causal attention. Probabilities come back from the saved log-sum-exp; a task is
// one head of one sequence, whose query blocks add to the gradients of keys and values in order.
#include "actor_runtime/kernel/attention.h"
#include "actor_runtime/kernel/factories.h"

namespace oneflow {
namespace {

template <typename T>
struct AttentionBackward {
  const VectorKernels<T>& v;
  const AttentionShape& a;
  const T *dout, *qkv, *out, *lse;
  T* dqkv;

  void Head(int64_t batch, int64_t head, std::byte* workspace) const {
    const AttentionScratch<T> scratch(a, workspace);
    const int64_t at = batch * a.t * a.qkv_row() + head * a.d;
    for (int64_t first = 0; first < a.t; first += kQueryBlock<T>) {
      const int64_t rows = std::min(kQueryBlock<T>, a.t - first);
      // These keys and values are met first by this block: their sums start here.
      for (int64_t i = first; i < first + rows; ++i) {
        T* dk = dqkv + at + i * a.qkv_row() + a.h * a.d;
        std::fill_n(dk, a.d, T(0));
        std::fill_n(dk + a.h * a.d, a.d, T(0));
      }
      Scores(batch, head, first, rows, scratch);
      Products(batch, head, first, rows, scratch);
    }
  }

  // scratch.scores = probabilities, scratch.gradients = gradients of the scores before the scale.
  void Scores(int64_t batch, int64_t head, int64_t first, int64_t rows,
              const AttentionScratch<T>& scratch) const {
    const int64_t keys = first + rows, row = a.qkv_row(), out_row = a.out_row();
    const T* q = qkv + batch * a.t * row + head * a.d;
    const T *k = q + a.h * a.d, *value = k + a.h * a.d;
    const int64_t out_at = (batch * a.t + first) * out_row + head * a.d;
    GemmSerial(
        BestProductKernels<T>(),
        GemmArgs<T>{rows, keys, a.d, {q + first * row, row, 1}, {k, 1, row}, scratch.scores, keys},
        scratch.product);
    GemmSerial(
        BestProductKernels<T>(),
        GemmArgs<T>{
            rows, keys, a.d, {dout + out_at, out_row, 1}, {value, 1, row}, scratch.gradients, keys},
        scratch.product);
    const T scale = T(1) / std::sqrt(T(a.d));
    for (int64_t i = 0; i < rows; ++i) {
      T *s = scratch.scores + i * keys, *ds = scratch.gradients + i * keys;
      const T delta = v.dot(dout + out_at + i * out_row, out + out_at + i * out_row, a.d);
      const int64_t seen = first + i + 1;
      v.softmax_row_grad(s, ds, scale, lse[(batch * a.h + head) * a.t + first + i], delta, seen);
      std::fill(s + seen, s + keys, T(0));
      std::fill(ds + seen, ds + keys, T(0));
    }
  }

  void Products(int64_t batch, int64_t head, int64_t first, int64_t rows,
                const AttentionScratch<T>& scratch) const {
    const int64_t keys = first + rows, row = a.qkv_row(), out_row = a.out_row(), d = a.d;
    const int64_t at = batch * a.t * row + head * d;
    const T *q = qkv + at + first * row, *k = qkv + at + a.h * d;
    T *dq = dqkv + at + first * row, *dk = dqkv + at + a.h * d, *dv = dk + a.h * d;
    const T* from = dout + (batch * a.t + first) * out_row + head * d;
    const Strided<T> ds{scratch.gradients, keys, 1}, ds_t{scratch.gradients, 1, keys};
    const Strided<T> p_t{scratch.scores, 1, keys};
    GemmSerial(BestProductKernels<T>(), GemmArgs<T>{rows, d, keys, ds, {k, row, 1}, dq, row},
               scratch.product);
    GemmSerial(BestProductKernels<T>(),
               GemmArgs<T>{keys, d, rows, ds_t, {q, row, 1}, dk, row, true}, scratch.product);
    GemmSerial(BestProductKernels<T>(),
               GemmArgs<T>{keys, d, rows, p_t, {from, out_row, 1}, dv, row, true}, scratch.product);
  }
};

}  // namespace

absl::StatusOr<Kernel> MakeCausalAttentionGrad(const KernelSetup& s) {
  const absl::StatusOr<AttentionShape> shape = AttentionShapeOf(s, In(s, 1).local());
  if (!shape.ok()) return shape.status();
  return ForFloats(s, s.out[0].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return [a = *shape, &v = Vector<T>(), name = s.name](const KernelCall& call) {
      if (call.accumulate)
        return absl::InternalError(name + ": an activation's gradient is not added up");
      const AttentionBackward<T> backward{v,
                                          a,
                                          call.input<T>(0),
                                          call.input<T>(1),
                                          call.input<T>(2),
                                          call.input<T>(3),
                                          call.output<T>(0)};
      call.pool->ParallelFor(static_cast<int>(a.b * a.h), [&](int task, int thread) {
        backward.Head(task / a.h, task % a.h, call.workspace.data() + thread * a.thread_bytes);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
