// Element-wise kernels. Each works on pieces of a fixed size.
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

absl::StatusOr<Kernel> MakeFill(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    const int64_t n = Elements(s.out[0]);
    const T value = static_cast<T>(DoubleAttr(s, "value"));
    return [n, value](const KernelCall& call) {
      T* y = call.output<T>(0);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = call.accumulate ? y[i] + value : value;
      });
      return absl::OkStatus();
    };
  });
}

// `run`: a loop of VectorKernels over elements of one input, or of two.
template <typename A, typename Y>
Kernel OverElements(const KernelSetup& s, void (*run)(const A*, Y*, int64_t, bool)) {
  return [n = Elements(s.out[0]), run](const KernelCall& call) {
    ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
      run(call.input<A>(0) + begin, call.output<Y>(0) + begin, end - begin, call.accumulate);
    });
    return absl::OkStatus();
  };
}
template <typename A, typename B, typename Y>
Kernel OverElements(const KernelSetup& s, void (*run)(const A*, const B*, Y*, int64_t, bool)) {
  return [n = Elements(s.out[0]), run](const KernelCall& call) {
    ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
      run(call.input<A>(0) + begin, call.input<B>(1) + begin, call.output<Y>(0) + begin,
          end - begin, call.accumulate);
    });
    return absl::OkStatus();
  };
}

// b may be narrower than the sum, or both may be narrow.
absl::StatusOr<Kernel> MakeAdd(const KernelSetup& s) {
  return ForStored(s, In(s, 1).dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const VectorKernels<T, S>& v = *VectorFor<T, S>(s.isa);
    return s.out[0].dtype == DType::kBF16 ? OverElements(s, v.add_narrow) : OverElements(s, v.add);
  });
}

// f32 rounded to bf16, or bf16 as f32. f64 stays f64, so that gradient checks compute wide
// throughout.
absl::StatusOr<Kernel> MakeCast(const KernelSetup& s) {
  const bool widens = In(s, 0).dtype == DType::kBF16;
  const DType narrower = widens ? DType::kBF16 : s.out[0].dtype;
  return ForStored(s, narrower, [&]<typename T, typename S>(T, S) -> Kernel {
    const VectorKernels<T, S>& v = *VectorFor<T, S>(s.isa);
    return widens ? OverElements(s, v.widen) : OverElements(s, v.round);
  });
}

absl::StatusOr<Kernel> MakeAddBias(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const int64_t width = Elements(In(s, 1));
    const int64_t rows = width == 0 ? 0 : Elements(s.out[0]) / width;
    return [rows, width, &v = *VectorFor<T, S>(s.isa)](const KernelCall& call) {
      const S* x = call.input<S>(0);
      const T* bias = call.input<T>(1);
      S* y = call.output<S>(0);
      ForPieces(call, rows, RowPiece(width), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          v.add_bias(x + r * width, bias, y + r * width, width, call.accumulate);
        }
      });
      return absl::OkStatus();
    };
  });
}

// Elements that are summed wide before they are rounded.
constexpr int64_t kWideSums = 256;

// Narrow terms: the sum of all, in input order, is rounded once.
Kernel AddNarrow(const KernelSetup& s) {
  const int inputs = static_cast<int>(s.in.size());
  return [n = Elements(s.out[0]), inputs,
          &v = *VectorFor<float, Bf16>(s.isa)](const KernelCall& call) {
    Bf16* y = call.output<Bf16>(0);
    ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
      float sums[kWideSums];
      for (int64_t at = begin; at < end; at += kWideSums) {
        const int64_t count = std::min(kWideSums, end - at);
        v.widen(call.input<Bf16>(0) + at, sums, count, false);
        for (int i = 1; i < inputs; ++i) v.accumulate(call.input<Bf16>(i) + at, sums, count);
        v.round(sums, y + at, count, call.accumulate);
      }
    });
    return absl::OkStatus();
  };
}

// add_n and sum_uses: in input order.
absl::StatusOr<Kernel> MakeAddN(const KernelSetup& s) {
  if (s.out[0].dtype == DType::kBF16) return AddNarrow(s);
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    const int inputs = static_cast<int>(s.in.size());
    return [n = Elements(s.out[0]), inputs, &v = *VectorFor<T>(s.isa)](const KernelCall& call) {
      T* y = call.output<T>(0);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        int next = 0;
        if (!call.accumulate) {
          const T* x = call.input<T>(next++) + begin;
          std::copy(x, x + (end - begin), y + begin);
        }
        for (; next < inputs; ++next)
          v.accumulate(call.input<T>(next) + begin, y + begin, end - begin);
      });
      return absl::OkStatus();
    };
  });
}

// `run`: a loop of VectorKernels with a number, over elements of one input.
template <typename T, typename S>
Kernel OverElements(const KernelSetup& s, T number, void (*run)(T, const S*, S*, int64_t, bool)) {
  return [n = Elements(s.out[0]), number, run](const KernelCall& call) {
    ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
      run(number, call.input<S>(0) + begin, call.output<S>(0) + begin, end - begin,
          call.accumulate);
    });
    return absl::OkStatus();
  };
}

absl::StatusOr<Kernel> MakeMultiply(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const T factor = static_cast<T>(DoubleAttr(s, "factor"));
    return OverElements<T, S>(s, factor, VectorFor<T, S>(s.isa)->multiply);
  });
}

absl::StatusOr<Kernel> MakeSoftCap(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return OverElements<T, S>(s, static_cast<T>(DoubleAttr(s, "cap")),
                              VectorFor<T, S>(s.isa)->soft_cap);
  });
}

absl::StatusOr<Kernel> MakeSoftCapGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return [n = Elements(s.out[0]), cap = static_cast<T>(DoubleAttr(s, "cap")),
            run = VectorFor<T, S>(s.isa)->soft_cap_grad](const KernelCall& call) {
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        run(cap, call.input<S>(0) + begin, call.input<S>(1) + begin, call.output<S>(0) + begin,
            end - begin, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeGelu(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return OverElements(s, VectorFor<T, S>(s.isa)->gelu);
  });
}

absl::StatusOr<Kernel> MakeGeluGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return OverElements(s, VectorFor<T, S>(s.isa)->gelu_grad);
  });
}

// The loops of the attribute `activation`.
template <typename T, typename S>
const GatedKernels<S>& FindGated(const KernelSetup& s) {
  const VectorKernels<T, S>& v = *VectorFor<T, S>(s.isa);
  const std::pair<std::string_view, const GatedKernels<S>*> kActivations[] = {
      {"silu", &v.gated_silu}, {"gelu", &v.gated_gelu}, {"clamped_silu", &v.gated_clamped_silu}};
  const auto* found = std::ranges::find(kActivations, StringAttr(s, "activation"),
                                        [](const auto& row) { return row.first; });
  return *found->second;  // the op's definition has checked it
}

absl::StatusOr<Kernel> MakeGated(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    return OverElements(s, FindGated<T, S>(s).forward);
  });
}

absl::StatusOr<Kernel> MakeGatedGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&]<typename T, typename S>(T, S) -> Kernel {
    const auto run = FindGated<T, S>(s).grad;
    return [n = Elements(s.out[0]), run](const KernelCall& call) {
      const S *dy = call.input<S>(0), *gate = call.input<S>(1), *up = call.input<S>(2);
      S *dgate = call.output<S>(0), *dup = call.output<S>(1);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        run(dy + begin, gate + begin, up + begin, dgate + begin, dup + begin, end - begin,
            call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable ElementwiseTable() {
  return {{"add", MakeAdd},
          {"add_bias", MakeAddBias},
          {"add_delta", MakeAdd},
          {"add_n", MakeAddN},
          {"cast", MakeCast},
          {"fill", MakeFill},
          {"gated", MakeGated},
          {"gated_grad", MakeGatedGrad},
          {"gelu", MakeGelu},
          {"gelu_grad", MakeGeluGrad},
          {"multiply", MakeMultiply},
          {"soft_cap", MakeSoftCap},
          {"soft_cap_grad", MakeSoftCapGrad},
          {"sum_uses", MakeAddN}};
}

}  // namespace oneflow
