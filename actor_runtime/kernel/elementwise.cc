// Element-wise kernels. Each works on pieces of a fixed size.
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeFill(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
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

// b may be narrower than the sum.
absl::StatusOr<Kernel> MakeAdd(const KernelSetup& s) {
  return ForStored(s, In(s, 1).dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    return [n = Elements(s.out[0]), &v = Vector<T, S>()](const KernelCall& call) {
      const T* a = call.input<T>(0);
      const S* b = call.input<S>(1);
      T* y = call.output<T>(0);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        v.add(a + begin, b + begin, y + begin, end - begin, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeAddBias(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    const int64_t width = Elements(In(s, 1));
    const int64_t rows = width == 0 ? 0 : Elements(s.out[0]) / width;
    return [rows, width, &v = Vector<T, S>()](const KernelCall& call) {
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

// add_n and sum_uses: in input order.
absl::StatusOr<Kernel> MakeAddN(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    const int inputs = static_cast<int>(s.in.size());
    return [n = Elements(s.out[0]), inputs, &v = Vector<T>()](const KernelCall& call) {
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

absl::StatusOr<Kernel> MakeGelu(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    return [n = Elements(s.out[0]), &v = Vector<T, S>()](const KernelCall& call) {
      const S* x = call.input<S>(0);
      S* y = call.output<S>(0);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        v.gelu(x + begin, y + begin, end - begin, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeGeluGrad(const KernelSetup& s) {
  return ForStored(s, s.out[0].dtype, [&](auto zero, auto stored) -> Kernel {
    using T = decltype(zero);
    using S = decltype(stored);
    return [n = Elements(s.out[0]), &v = Vector<T, S>()](const KernelCall& call) {
      const S *dy = call.input<S>(0), *x = call.input<S>(1);
      S* dx = call.output<S>(0);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        v.gelu_grad(dy + begin, x + begin, dx + begin, end - begin, call.accumulate);
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
