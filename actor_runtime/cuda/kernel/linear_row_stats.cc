#include "actor_runtime/cuda/kernel/linear_row_stats.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "actor_runtime/cuda/kernel/finish_product.h"
#include "actor_runtime/cuda/kernel/logit_rows.h"
#include "actor_runtime/cuda/kernel/matmul_plan.h"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/linear_row_stats_dims.h"

namespace oneflow::cuda {
namespace {

using Plan = std::shared_ptr<const MatmulPlan>;

// The gradients that a kernel makes: of the input, of the weight, in this order of outputs.
struct Gradients {
  bool input = false, weight = false;
};

// The products of a piece of so many rows. Those of gradients that are not made are null.
struct PieceProducts {
  Plan logits, dx, dw;
};

absl::StatusOr<PieceProducts> MakeProducts(const LogitPieces& p, int64_t rows, DType dtype,
                                           Gradients gradients, const Libraries& libraries) {
  const cudaDataType type = dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_32F;
  MatmulShape shape{.m = rows,
                    .n = p.vocab,
                    .k = p.width,
                    .transpose_b = true,
                    .in = type,
                    .out = type,
                    .workspace_bytes = kLibraryProductScratch};
  PieceProducts made;
  ASSIGN_OR_RETURN(made.logits, MatmulPlan::Make(shape, libraries));
  shape.n = p.width, shape.k = p.vocab, shape.transpose_b = false;
  if (gradients.input) {
    ASSIGN_OR_RETURN(made.dx, MatmulPlan::Make(shape, libraries));
  }
  shape.m = p.vocab, shape.k = rows, shape.transpose_a = true, shape.out = CUDA_R_32F;
  if (gradients.weight) {
    ASSIGN_OR_RETURN(made.dw, MatmulPlan::Make(shape, libraries));
  }
  return made;
}

// What both kernels do with a piece.
struct PieceMaker {
  LogitPieces p;
  DType dtype = DType::kF32;  // of x, w and logits
  float cap = 0;              // 0: none
  Gradients gradients;
  PieceProducts full, last;  // of the last piece, which may be shorter

  int64_t RowsFrom(int64_t row) const { return std::min(p.of_piece, p.rows - row); }
  LogitSizes Sizes(int64_t row) const { return {RowsFrom(row), p.vocab, 0}; }
  const PieceProducts& Products(int64_t row) const {
    return RowsFrom(row) == p.of_piece ? full : last;
  }
  void* Logits(const KernelCall& call) const { return call.workspace.data(); }
  std::span<std::byte> Scratch(const KernelCall& call) const {
    return call.workspace.subspan(p.logit_bytes);
  }
  // The bytes before row `row` of x or dx.
  int64_t Before(int64_t row) const {
    return row * p.width * static_cast<int64_t>(ElementBytes(dtype));
  }
  const std::byte* X(const KernelCall& call, int64_t row) const {
    return call.in[0][0] + Before(row);
  }

  absl::Status MakeLogits(const KernelCall& call, int64_t row) const {
    RETURN_IF_ERROR(
        Products(row).logits->Run({.a = X(call, row), .b = call.in[1][0], .d = Logits(call)},
                                  Scratch(call), FindStream(call)));
    if (cap == 0) return absl::OkStatus();
    return LaunchLogitCap(dtype, Sizes(row), cap, Logits(call), FindStream(call));
  }
  absl::Status PutInputGrad(const KernelCall& call, int64_t row) const {
    return Products(row).dx->Run(
        {.a = Logits(call), .b = call.in[1][0], .d = call.out[0] + Before(row)}, Scratch(call),
        FindStream(call));
  }
  // In the order of pieces.
  absl::Status AddWeightGrad(const KernelCall& call, int64_t row) const {
    std::byte* const dw = call.out[gradients.input ? 1 : 0];
    return Products(row).dw->Run({.a = Logits(call),
                                  .b = X(call, row),
                                  .c = dw,
                                  .d = dw,
                                  .beta = call.accumulate || row > 0 ? 1.0f : 0.0f},
                                 Scratch(call), FindStream(call));
  }
};

absl::StatusOr<PieceMaker> MakePieceMaker(const KernelSetup& s, Gradients gradients,
                                          const Libraries& libraries) {
  PieceMaker maker{.p = FindLogitPieces(MakeLocalOp(s)),
                   .dtype = In(s, 0).dtype,
                   .cap = static_cast<float>(DoubleAttr(s, "cap")),
                   .gradients = gradients};
  const LogitPieces& p = maker.p;
  if (maker.dtype != DType::kBF16) RETURN_IF_ERROR(NeedF32(s, maker.dtype));
  if (p.Empty()) return maker;
  RETURN_IF_ERROR(NeedWorkspace(s, p.logit_bytes + kLibraryProductScratch));
  ASSIGN_OR_RETURN(maker.full, MakeProducts(p, p.of_piece, maker.dtype, gradients, libraries));
  maker.last = maker.full;
  if (const int64_t rest = p.rows % p.of_piece; rest != 0) {
    ASSIGN_OR_RETURN(maker.last, MakeProducts(p, rest, maker.dtype, gradients, libraries));
  }
  return maker;
}

absl::Status MakeStatistics(const PieceMaker& maker, const KernelCall& call) {
  for (int64_t row = 0; row < maker.p.rows; row += maker.p.of_piece) {
    RETURN_IF_ERROR(maker.MakeLogits(call, row));
    const RowStatistics out{call.output<float>(0) + row, call.output<float>(1) + row,
                            call.output<float>(2) + row};
    RETURN_IF_ERROR(LaunchRowStats(maker.dtype, maker.Sizes(row), maker.Logits(call),
                                   call.input<int32_t>(2) + row, out, FindStream(call)));
  }
  return absl::OkStatus();
}

absl::Status MakeGradients(const PieceMaker& maker, double scale, bool ignores,
                           const KernelCall& call) {
  for (int64_t row = 0; row < maker.p.rows; row += maker.p.of_piece) {
    RETURN_IF_ERROR(maker.MakeLogits(call, row));
    void* const logits = maker.Logits(call);
    const LogitGradInputs in{.labels = call.input<int32_t>(2) + row,
                             .max = call.input<float>(3) + row,
                             .sum = call.input<float>(4) + row,
                             .dloss = call.input<float>(5),
                             .scale = scale,
                             .ignores = ignores,
                             .cap = maker.cap};
    RETURN_IF_ERROR(LaunchLogitGrads(maker.dtype, maker.Sizes(row), logits, in,
                                     /*accumulate=*/false, logits, FindStream(call)));
    if (maker.gradients.input) RETURN_IF_ERROR(maker.PutInputGrad(call, row));
    if (maker.gradients.weight) RETURN_IF_ERROR(maker.AddWeightGrad(call, row));
  }
  return absl::OkStatus();
}

absl::StatusOr<Kernel> MakeLinearRowStats(const KernelSetup& s, const Libraries& libraries) {
  ASSIGN_OR_RETURN(const PieceMaker maker, MakePieceMaker(s, {}, libraries));
  return Kernel([maker](const KernelCall& call) { return MakeStatistics(maker, call); });
}

template <bool input, bool weight>
absl::StatusOr<Kernel> MakeLinearRowStatsGrad(const KernelSetup& s, const Libraries& libraries) {
  ASSIGN_OR_RETURN(const PieceMaker maker, MakePieceMaker(s, {input, weight}, libraries));
  if (weight && maker.p.Empty()) {  // a sum of no rows
    const FinishSpec zeros{.rows = maker.p.vocab, .columns = maker.p.width};
    return Kernel([zeros](const KernelCall& call) {
      if (call.accumulate) return absl::OkStatus();
      return FinishProduct(zeros, {.out = call.out[input ? 1 : 0]}, FindStream(call));
    });
  }
  return Kernel([maker, scale = DoubleAttr(s, "scale", 1),
                 ignores = BoolAttr(s, "ignore_negative")](const KernelCall& call) {
    return MakeGradients(maker, scale, ignores, call);
  });
}

}  // namespace

std::span<const LibraryKernelEntry> LinearRowStatsTable() {
  static constexpr LibraryKernelEntry kTable[] = {
      {"linear_row_stats", MakeLinearRowStats},
      {"linear_row_stats_grad", MakeLinearRowStatsGrad<true, true>},
      {"linear_row_stats_grad_input", MakeLinearRowStatsGrad<true, false>},
      {"linear_row_stats_grad_weight", MakeLinearRowStatsGrad<false, true>},
  };
  return kTable;
}

}  // namespace oneflow::cuda
