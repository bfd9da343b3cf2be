// The statistics of rows of logits that no tensor holds, and their gradient: a piece of the rows at
// a time is in the workspace, before the scratch of its products.
#include <algorithm>
#include <cstddef>

#include "actor_runtime/kernel/cross_entropy_rows.h"
#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/linear_row_stats_dims.h"

namespace oneflow {
namespace {

// S is the type of x, w and logits, T that of sums.
template <typename T, typename S>
struct PieceMaker {
  LogitPieces p;
  const ProductKernels<S>& products;
  const VectorKernels<T, S>& v;
  T cap;  // 0: none

  S* Logits(const KernelCall& call) const { return reinterpret_cast<S*>(call.workspace.data()); }
  std::byte* Scratch(const KernelCall& call) const { return call.workspace.data() + p.logit_bytes; }
  int64_t RowsFrom(int64_t row) const { return std::min(p.of_piece, p.rows - row); }

  // Logits of `rows` rows from `row` on.
  void MakeLogits(const KernelCall& call, int64_t row, int64_t rows) const {
    const GemmArgs<S, S> g{.m = rows,
                           .n = p.vocab,
                           .k = p.width,
                           .a = {call.input<S>(0) + row * p.width, p.width, 1},
                           .b = {call.input<S>(1), 1, p.width},
                           .c = Logits(call),
                           .c_row = p.vocab};
    Gemm(products, g, Scratch(call), *call.pool);
    if (cap == 0) return;
    ForPieces(call, rows * p.vocab, kPiece, [&](int64_t begin, int64_t end) {
      S* const logits = Logits(call) + begin;
      v.soft_cap(cap, logits, logits, end - begin, /*accumulate=*/false);
    });
  }

  // Those of dx; the workspace holds the gradient of their logits.
  void PutInputGrad(const KernelCall& call, int64_t row, int64_t rows) const {
    const GemmArgs<S, S> g{.m = rows,
                           .n = p.width,
                           .k = p.vocab,
                           .a = {Logits(call), p.vocab, 1},
                           .b = {call.input<S>(1), p.width, 1},
                           .c = call.output<S>(0) + row * p.width,
                           .c_row = p.width};
    Gemm(products, g, Scratch(call), *call.pool);
  }

  // What these rows add to dw, output `output`, in the order of pieces.
  void AddWeightGrad(const KernelCall& call, int64_t row, int64_t rows, int output) const {
    const GemmArgs<S, T> g{.m = p.vocab,
                           .n = p.width,
                           .k = rows,
                           .a = {Logits(call), 1, p.vocab},
                           .b = {call.input<S>(0) + row * p.width, p.width, 1},
                           .c = call.output<T>(output),
                           .c_row = p.width,
                           .accumulate = call.accumulate || row > 0};
    Gemm(products, g, Scratch(call), *call.pool);
  }
};

template <typename T, typename S>
PieceMaker<T, S> MakePieceMaker(const KernelSetup& s, const LogitPieces& p) {
  return {p, *ProductKernelsFor<S>(s.isa), *VectorFor<T, S>(s.isa),
          static_cast<T>(DoubleAttr(s, "cap"))};
}

// The pieces of a kernel of either kind, whose plan gives enough workspace.
absl::StatusOr<LogitPieces> FindPieces(const KernelSetup& s) {
  const LogitPieces p = FindLogitPieces(MakeLocalOp(s));
  RETURN_IF_ERROR(NeedWorkspace(s, p.Empty() ? 0 : p.logit_bytes + LogitProductWorkspace(p)));
  return p;
}

absl::StatusOr<Kernel> MakeLinearRowStats(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const LogitPieces p, FindPieces(s));
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [maker = MakePieceMaker<T, S>(s, p)](const KernelCall& call) {
      const LogitPieces& p = maker.p;
      for (int64_t row = 0; row < p.rows; row += p.of_piece) {
        const int64_t rows = maker.RowsFrom(row);
        maker.MakeLogits(call, row, rows);
        PutRowStats(call, maker.v, rows, p.vocab, maker.Logits(call), call.input<int32_t>(2) + row,
                    call.output<T>(0) + row, call.output<T>(1) + row, call.output<T>(2) + row);
      }
      return absl::OkStatus();
    };
  });
}

// `input`, `weight`: the gradients that it makes, in this order.
template <bool input, bool weight>
absl::StatusOr<Kernel> MakeLinearRowStatsGrad(const KernelSetup& s) {
  ASSIGN_OR_RETURN(const LogitPieces p, FindPieces(s));
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [maker = MakePieceMaker<T, S>(s, p), scale = DoubleAttr(s, "scale", 1),
            ignores = BoolAttr(s, "ignore_negative"),
            &wide = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const LogitPieces& p = maker.p;
      if (weight && p.Empty() && !call.accumulate) {  // a sum of no rows
        std::fill_n(call.output<T>(input ? 1 : 0), p.vocab * p.width, T(0));
      }
      for (int64_t row = 0; row < p.rows; row += p.of_piece) {
        const int64_t rows = maker.RowsFrom(row);
        maker.MakeLogits(call, row, rows);
        S* logits = maker.Logits(call);
        const LogitRows<T> r{.rows = rows,
                             .width = p.vocab,
                             .first = 0,
                             .ignores = ignores,
                             .factor = ScaledLoss(scale, *call.input<T>(5)),
                             .cap = maker.cap,
                             .labels = call.input<int32_t>(2) + row,
                             .max = call.input<T>(3) + row,
                             .sum = call.input<T>(4) + row};
        PutLogitGrads(call, maker.v, wide, r, logits, logits, /*accumulate=*/false);
        if (input) maker.PutInputGrad(call, row, rows);
        if (weight) maker.AddWeightGrad(call, row, rows, input ? 1 : 0);
      }
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable LinearRowStatsTable() {
  return {{"linear_row_stats", MakeLinearRowStats},
          {"linear_row_stats_grad", MakeLinearRowStatsGrad<true, true>},
          {"linear_row_stats_grad_input", MakeLinearRowStatsGrad<true, false>},
          {"linear_row_stats_grad_weight", MakeLinearRowStatsGrad<false, true>}};
}

}  // namespace oneflow
