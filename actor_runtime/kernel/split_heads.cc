// Copies of rows: heads of qkv[b, t, 3, h, d] to matrices [t, d] and back, and two dimensions
// exchanged. A task is a matrix.
#include <algorithm>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

constexpr int kParts = 3;  // queries, keys, values

// The positions of heads in a local piece of qkv.
struct HeadRows {
  int64_t b, t, h, d;

  explicit HeadRows(const Dims& qkv) : b(qkv[0]), t(qkv[1]), h(qkv[3]), d(qkv[4]) {}
  int tasks() const { return static_cast<int>(b * h) * kParts; }
  int64_t row() const { return kParts * h * d; }  // from one position to the next
  // For task i: its part, and where its head starts in qkv and in the part.
  int FindPart(int64_t i) const { return static_cast<int>(i % kParts); }
  int64_t QkvAt(int64_t i) const {
    const int64_t head = i / kParts;
    return head / h * t * row() + (i % kParts * h + head % h) * d;
  }
  int64_t PartAt(int64_t i) const { return i / kParts * t * d; }
};

absl::StatusOr<Kernel> MakeSplitHeads(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = HeadRows(In(s, 0).local())](const KernelCall& call) {
      const S* qkv = call.input<S>(0);
      call.pool->ParallelFor(r.tasks(), [&](int i, int) {
        const S* from = qkv + r.QkvAt(i);
        S* to = call.output<S>(r.FindPart(i)) + r.PartAt(i);
        for (int64_t p = 0; p < r.t; ++p) {
          PutRow<T>(from + p * r.row(), r.d, call.accumulate, to + p * r.d);
        }
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeSplitHeadsGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = HeadRows(s.out[0].local())](const KernelCall& call) {
      S* dqkv = call.output<S>(0);
      call.pool->ParallelFor(r.tasks(), [&](int i, int) {
        const S* from = call.input<S>(r.FindPart(i)) + r.PartAt(i);
        S* to = dqkv + r.QkvAt(i);
        for (int64_t p = 0; p < r.t; ++p) {
          PutRow<T>(from + p * r.d, r.d, call.accumulate, to + p * r.row());
        }
      });
      return absl::OkStatus();
    };
  });
}

// x[a, m, n, ...] -> y[a, n, m, ...].
absl::StatusOr<Kernel> MakeSwapDims(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const Dims& x = In(s, 0).local();
    const int64_t a = x[0], m = x[1], n = x[2], run = DimsProduct(x, 3);
    return [=](const KernelCall& call) {
      const S* from = call.input<S>(0);
      S* to = call.output<S>(0);
      call.pool->ParallelFor(static_cast<int>(a * n), [&](int task, int) {
        const int64_t i = task / n, column = task % n;
        for (int64_t row = 0; row < m; ++row) {
          PutRow<T>(from + ((i * m + row) * n + column) * run, run, call.accumulate,
                    to + ((i * n + column) * m + row) * run);
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable SplitHeadsTable() {
  return {{"split_heads", MakeSplitHeads},
          {"split_heads_grad", MakeSplitHeadsGrad},
          {"swap_dims", MakeSwapDims}};
}

}  // namespace oneflow
