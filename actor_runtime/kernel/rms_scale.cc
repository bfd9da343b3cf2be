// square_sums, rms_scale and their gradients: a norm whose rows may be split between devices. A row
// is what a device has of the trailing dimensions.
#include <algorithm>
#include <cmath>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

// `rows` rows of `width` elements, and the scale that the sum of a row's squares on all devices
// gives.
template <typename T>
struct SplitRows {
  int64_t rows, width;
  T of, epsilon;
  T Factor(T sum) const { return T(1) / std::sqrt(sum / of + epsilon); }
};

// Of x, in the dimensions behind the first `outer`.
template <typename T>
SplitRows<T> FindSplitRows(const KernelSetup& s, const Port& x, size_t outer) {
  const int first = static_cast<int>(outer);
  return {.rows = DimsProduct(x.local(), 0, first),
          .width = DimsProduct(x.local(), first),
          .of = static_cast<T>(IntAttr(s, "of")),
          .epsilon = static_cast<T>(DoubleAttr(s, "epsilon", 1e-5))};
}

// fn(row, index of its first element) for all rows.
template <typename T, typename Fn>
void ForSplitRows(const KernelCall& call, const SplitRows<T>& r, Fn fn) {
  ForPieces(call, r.rows, RowPiece(r.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) fn(row, row * r.width);
  });
}

template <typename T>
void PutNumber(T* to, T value, bool accumulate) {
  *to = accumulate ? *to + value : value;
}

absl::StatusOr<Kernel> MakeSquareSums(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindSplitRows<T>(s, In(s, 0), s.out[0].dims.size()),
            &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      ForSplitRows(call, r, [&](int64_t row, int64_t at) {
        const T sum = v.row_square_sum(call.input<S>(0) + at, r.width);
        PutNumber(call.output<T>(0) + row, sum, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeSquareSumsGrad(const KernelSetup& s) {
  return ForStored(s, In(s, 1).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindSplitRows<T>(s, In(s, 1), In(s, 0).dims.size()),
            &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      ForSplitRows(call, r, [&](int64_t row, int64_t at) {
        v.multiply(2 * call.input<T>(0)[row], call.input<S>(1) + at, call.output<S>(0) + at,
                   r.width, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeRmsScale(const KernelSetup& s) {
  return ForStored(s, In(s, 0).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindSplitRows<T>(s, In(s, 0), In(s, 1).dims.size()),
            &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      ForSplitRows(call, r, [&](int64_t row, int64_t at) {
        v.row_scale(call.input<S>(0) + at, r.Factor(call.input<T>(1)[row]), call.input<T>(2),
                    call.output<S>(0) + at, r.width, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeRmsScaleGradSums(const KernelSetup& s) {
  return ForStored(s, In(s, 1).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindSplitRows<T>(s, In(s, 1), In(s, 2).dims.size()),
            &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      ForSplitRows(call, r, [&](int64_t row, int64_t at) {
        const T scale = r.Factor(call.input<T>(2)[row]);
        const T dot =
            v.row_dot(call.input<S>(0) + at, call.input<S>(1) + at, call.input<T>(3), r.width);
        PutNumber(call.output<T>(0) + row, T(-0.5) * scale * scale * scale / r.of * dot,
                  call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

// The gain's gradient is that of rms_norm, for some rows at a time, whose scales it reads.
absl::StatusOr<Kernel> MakeRmsScaleGradWeight(const KernelSetup& s) {
  return ForStored(s, In(s, 1).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [r = FindSplitRows<T>(s, In(s, 1), In(s, 2).dims.size()),
            run = VectorFor<T, S>(s.isa)->rms_norm_narrow.grad_weight](const KernelCall& call) {
      const S *dy = call.input<S>(0), *x = call.input<S>(1);
      T* dgamma = call.output<T>(0);
      if (r.rows == 0 && !call.accumulate) std::fill_n(dgamma, r.width, T(0));
      ForPieces(call, r.width, ColumnPiece(r.width), [&](int64_t begin, int64_t end) {
        constexpr int64_t kRows = 64;
        for (int64_t first = 0; first < r.rows; first += kRows) {
          const int64_t rows = std::min(kRows, r.rows - first), at = first * r.width;
          T scales[kRows];
          for (int64_t i = 0; i < rows; ++i) scales[i] = r.Factor(call.input<T>(2)[first + i]);
          run(dy + at, x + at, scales, dgamma, rows, r.width, begin, end,
              call.accumulate || first > 0);
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable RmsScaleTable() {
  return {{"rms_scale", MakeRmsScale},
          {"rms_scale_grad_sums", MakeRmsScaleGradSums},
          {"rms_scale_grad_weight", MakeRmsScaleGradWeight},
          {"square_sums", MakeSquareSums},
          {"square_sums_grad", MakeSquareSumsGrad}};
}

}  // namespace oneflow
