#include "actor_runtime/kernel/attention.h"

#include "actor_runtime/kernel/factories.h"

namespace oneflow {
namespace {

template <typename T>
struct AttentionForward {
  const VectorKernels<T>& v;
  const AttentionShape& a;
  const T* qkv;
  T *out, *lse;
  bool accumulate;

  // Queries [first, first + rows) of head `head` of sequence `batch`.
  void Block(int64_t batch, int64_t head, int64_t first, int64_t rows, std::byte* workspace) const {
    const AttentionScratch<T> scratch(a, workspace);
    const int64_t keys = first + rows, row = a.qkv_row();
    const T* q = qkv + batch * a.t * row + head * a.d;
    const T *k = q + a.h * a.d, *value = k + a.h * a.d;
    GemmSerial(
        BestProductKernels<T>(),
        GemmArgs<T>{rows, keys, a.d, {q + first * row, row, 1}, {k, 1, row}, scratch.scores, keys},
        scratch.product);
    const T scale = T(1) / std::sqrt(T(a.d));
    T* lse_row = lse + (batch * a.h + head) * a.t;
    for (int64_t i = 0; i < rows; ++i) {
      T* s = scratch.scores + i * keys;
      const int64_t seen = first + i + 1;
      T max;
      const T sum = v.softmax_row(s, scale, seen, &max);
      v.scale(T(1) / sum, s, seen);
      std::fill(s + seen, s + keys, T(0));
      lse_row[first + i] = max * scale + std::log(sum);
    }
    T* to = out + (batch * a.t + first) * a.out_row() + head * a.d;
    GemmSerial(BestProductKernels<T>(),
               GemmArgs<T>{rows,
                           a.d,
                           keys,
                           {scratch.scores, keys, 1},
                           {value, row, 1},
                           to,
                           a.out_row(),
                           accumulate},
               scratch.product);
  }
};

}  // namespace

absl::StatusOr<Kernel> MakeCausalAttention(const KernelSetup& s) {
  const absl::StatusOr<AttentionShape> shape = AttentionShapeOf(s, In(s, 0).local());
  if (!shape.ok()) return shape.status();
  return ForFloats(s, s.out[0].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return [a = *shape, &v = Vector<T>()](const KernelCall& call) {
      const AttentionForward<T> forward{
          v, a, call.input<T>(0), call.output<T>(0), call.output<T>(1), call.accumulate};
      const int64_t blocks = (a.t + kQueryBlock<T> - 1) / kQueryBlock<T>;
      call.pool->ParallelFor(static_cast<int>(a.b * a.h * blocks), [&](int task, int thread) {
        // The last blocks have the most keys: first come the long tasks.
        const int64_t block = blocks - 1 - task / (a.b * a.h), which = task % (a.b * a.h);
        const int64_t first = block * kQueryBlock<T>;
        forward.Block(which / a.h, which % a.h, first, std::min(kQueryBlock<T>, a.t - first),
                      call.workspace.data() + thread * a.thread_bytes);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
