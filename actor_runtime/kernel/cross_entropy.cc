// The parts of softmax cross entropy. Over a vocabulary that is split each part is local, and the
// maxima, sums and picked logits meet between them (as Pmax and P).
#include <algorithm>
#include <cmath>

#include "actor_runtime/kernel/cross_entropy_rows.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/label_count.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

absl::StatusOr<Kernel> MakeRowMax(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      T* y = call.output<T>(0);
      ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) y[r] = v.row_max(x + r * width, width);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeRowSumExp(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      const T* max = call.input<T>(1);
      T* y = call.output<T>(0);
      ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T sum = v.row_sum_exp(x + r * width, max[r], width);
          y[r] = call.accumulate ? y[r] + sum : sum;
        }
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakePick(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    const int64_t first = In(s, 0).slice.begin.back();
    return [=](const KernelCall& call) {
      const S* x = call.input<S>(0);
      const int32_t* ids = call.input<int32_t>(1);
      T* y = call.output<T>(0);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t column = ids[r] - first;
        const T value = column >= 0 && column < width ? T(Widen(x[r * width + column])) : T(0);
        y[r] = call.accumulate ? y[r] + value : value;
      }
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeRowStats(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    return [=, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      const int32_t* ids = call.input<int32_t>(1);
      T *max = call.output<T>(0), *sum = call.output<T>(1), *picked = call.output<T>(2);
      PutRowStats(call, v, rows, width, x, ids, max, sum, picked);
      return absl::OkStatus();
    };
  });
}

// A loss that acts through its gradient alone is reported as 0.
double ReportedScale(const KernelSetup& s) {
  return BoolAttr(s, "gradient_only") ? 0 : DoubleAttr(s, "scale", 1);
}

absl::StatusOr<Kernel> MakeMeanNll(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [rows = Elements(In(s, 0)), scale = ReportedScale(s),
            ignores = s.in.size() > 3](const KernelCall& call) {
      const T *max = call.input<T>(0), *sum = call.input<T>(1), *picked = call.input<T>(2);
      const int32_t* labels = ignores ? call.input<int32_t>(3) : nullptr;
      double total = 0;  // in order of rows, in f64
      for (int64_t r = 0; r < rows; ++r) {
        if (ignores && labels[r] < 0) continue;
        total += static_cast<double>(max[r]) + std::log(static_cast<double>(sum[r])) -
                 static_cast<double>(picked[r]);
      }
      T* loss = call.output<T>(0);
      const T value = static_cast<T>(total * scale);
      *loss = call.accumulate ? *loss + value : value;
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeCountLabels(const KernelSetup& s) {
  return Kernel([rows = Elements(In(s, 0))](const KernelCall& call) {
    const int32_t* labels = call.input<int32_t>(0);
    const auto count = std::count_if(labels, labels + rows, [](int32_t l) { return l >= 0; });
    double* out = call.output<double>(0);
    *out = static_cast<double>(count) + (call.accumulate ? *out : 0.0);
    return absl::OkStatus();
  });
}

// 0 where nothing was counted.
absl::StatusOr<Kernel> MakeDivide(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [](const KernelCall& call) {
      *call.output<T>(0) = static_cast<T>(*call.input<T>(0) / Divisor(*call.input<double>(1)));
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t width = LastDim(In(s, 0)), rows = CountRows(In(s, 0));
    const int64_t first = In(s, 0).slice.begin.back();
    const double scale = DoubleAttr(s, "scale", 1);
    const bool ignores = BoolAttr(s, "ignore_negative");
    return [=, &v = *VectorFor<T, S>(s.isa), &wide = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const LogitRows<T> r{.rows = rows,
                           .width = width,
                           .first = first,
                           .ignores = ignores,
                           .factor = ScaledLoss(scale, *call.input<T>(4)),
                           .labels = call.input<int32_t>(1),
                           .max = call.input<T>(2),
                           .sum = call.input<T>(3)};
      PutLogitGrads(call, v, wide, r, call.input<S>(0), call.output<S>(0), call.accumulate);
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable CrossEntropyTable() {
  return {{"count_labels", MakeCountLabels},
          {"cross_entropy_grad", MakeCrossEntropyGrad},
          {"divide", MakeDivide},
          {"mean_nll", MakeMeanNll},
          {"pick", MakePick},
          {"row_max", MakeRowMax},
          {"row_stats", MakeRowStats},
          {"row_sum_exp", MakeRowSumExp}};
}

}  // namespace oneflow
