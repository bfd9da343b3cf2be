// Once a step: the norm of the gradient, AdamW, and the rule that moves a router's bias.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "actor_runtime/kernel/adam_numbers.h"
#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/run_context.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// The square of an f32 is exact in f64.
double Square(double x) { return x * x; }

// In blocks of 4096 elements, added in order: threads share the blocks of a batch, whose sums fit
// the stack.
absl::StatusOr<Kernel> MakeSumOfAllSquares(const KernelSetup& s) {
  return ForFloats(s, In(s, 0).dtype, [&]<typename T>(T) -> Kernel {
    return [n = Elements(In(s, 0)), &v = *VectorFor<T>(s.isa)](const KernelCall& call) {
      constexpr int64_t kBlock = 4096, kBatch = 512;
      const T* g = call.input<T>(0);
      double total = 0, sums[kBatch];
      for (int64_t first = 0; first < n; first += kBatch * kBlock) {
        const int64_t count = std::min(kBatch * kBlock, n - first);
        ForPieces(call, count, 4 * kBlock, [&](int64_t begin, int64_t end) {
          for (int64_t at = begin; at < end; at += kBlock) {
            sums[at / kBlock] = v.sum_squares(g + first + at, std::min(kBlock, end - at));
          }
        });
        for (int64_t b = 0; b * kBlock < count; ++b) total += sums[b];
      }
      double* out = call.output<double>(0);
      *out = call.accumulate ? *out + total : total;
      return absl::OkStatus();
    };
  });
}

// The sums for each index of a dimension of g[outer, n, inner], over the others in their order.
// Threads share indices, so that no sum depends on how many there are, or on a split of them.
absl::StatusOr<Kernel> MakeSumSquaresApart(const KernelSetup& s, int dim) {
  const Dims& dims = In(s, 0).slice.size;
  const int64_t n = dims[dim];
  const int64_t outer = Product(Dims(dims.begin(), dims.begin() + dim));
  const int64_t inner = Product(Dims(dims.begin() + dim + 1, dims.end()));
  return ForFloats(s, In(s, 0).dtype, [&]<typename T>(T) -> Kernel {
    return [=, &v = *VectorFor<T>(s.isa)](const KernelCall& call) {
      const T* g = call.input<T>(0);
      double* out = call.output<double>(0);
      const int64_t least =
          std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(1, outer * inner));
      ForPieces(call, n, least, [&](int64_t begin, int64_t end) {
        if (!call.accumulate) std::fill(out + begin, out + end, 0.0);
        for (int64_t o = 0; o < outer; ++o) {
          const T* row = g + o * n * inner;
          if (inner == 1) {
            for (int64_t j = begin; j < end; ++j) out[j] += Square(row[j]);
          } else {
            for (int64_t j = begin; j < end; ++j) out[j] += v.sum_squares(row + j * inner, inner);
          }
        }
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeSumSquares(const KernelSetup& s) {
  const auto dim = static_cast<int>(IntAttr(s, "dim", -1));
  return dim < 0 ? MakeSumOfAllSquares(s) : MakeSumSquaresApart(s, dim);
}

absl::StatusOr<Kernel> MakeSumInOrder(const KernelSetup& s) {
  return Kernel([n = Elements(In(s, 0))](const KernelCall& call) {
    const double* x = call.input<double>(0);
    *call.output<double>(0) = std::accumulate(x, x + n, 0.0);
    return absl::OkStatus();
  });
}

absl::StatusOr<Kernel> MakeGlobalNorm(const KernelSetup& s) {
  return Kernel([inputs = static_cast<int>(s.in.size())](const KernelCall& call) {
    double total = 0;
    for (int i = 0; i < inputs; ++i) total += *call.input<double>(i);
    *call.output<double>(0) = std::sqrt(total);
    return absl::OkStatus();
  });
}

// The actor's inputs are g and, if it waits for it, norm, and if g is a sum over labels, their
// number; w, m, v are update registers, read and written in place (the op's other three inputs),
// but for those that the attribute `apart` lists: their old values are the last inputs. If the norm
// is not finite, the step is skipped: values stay, the firing counts.
absl::StatusOr<Kernel> MakeAdamW(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    const int64_t n = Elements(s.out[0]);
    const bool counted = BoolAttr(s, "counted");
    const std::vector<int64_t> apart = IntsAttr(s, "apart");
    const int others = static_cast<int>(s.in.size() - apart.size());
    const int count = counted ? others - 1 : -1;
    return [n, name = s.name, decay = BoolAttr(s, "decay"), count, apart, others,
            with_norm = others > (counted ? 2 : 1),
            &v = *VectorFor<T>(s.isa)](const KernelCall& call) -> absl::Status {
      if (!call.run->optimizer) return InputError(name, "this run was given no optimizer");
      for (size_t i = 0; i < apart.size(); ++i) {
        const T* old = call.input<T>(others + static_cast<int>(i));
        T* next = call.output<T>(static_cast<int>(apart[i]));
        ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
          std::copy(old + begin, old + end, next + begin);
        });
      }
      const double norm = with_norm ? *call.input<double>(1) : 0.0;
      if (!std::isfinite(norm)) return absl::OkStatus();
      const AdamNumbers numbers =
          MakeAdamNumbers(call.run->optimizer(call.run->first_step + call.firing), decay, norm,
                          count < 0 ? 1.0 : *call.input<double>(count));
      const T* g = call.input<T>(0);
      T *w = call.output<T>(0), *m = call.output<T>(1), *u = call.output<T>(2);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        v.adamw(numbers, g + begin, w + begin, m + begin, u + begin, end - begin);
      });
      return absl::OkStatus();
    };
  });
}

// Writes the next version of w, from the newest (input 0) and g (input 1), which is divided by the
// number of labels (input 2) if there is one; m and v are updated in place.
absl::StatusOr<Kernel> MakeNextAdamW(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    const int64_t n = Elements(s.out[0]);
    return [n, name = s.name, decay = BoolAttr(s, "decay"), counted = BoolAttr(s, "counted"),
            &v = *VectorFor<T>(s.isa)](const KernelCall& call) -> absl::Status {
      if (!call.run->optimizer) return InputError(name, "this run was given no optimizer");
      const AdamNumbers numbers =
          MakeAdamNumbers(call.run->optimizer(call.run->first_step + call.firing), decay,
                          /*norm=*/0, counted ? *call.input<double>(2) : 1.0);
      const T *newest = call.input<T>(0), *g = call.input<T>(1);
      T *m = call.output<T>(0), *u = call.output<T>(1), *w = call.output<T>(2);
      ForPieces(call, n, kPiece, [&](int64_t begin, int64_t end) {
        std::copy(newest + begin, newest + end, w + begin);
        v.adamw(numbers, g + begin, w + begin, m + begin, u + begin, end - begin);
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeAddCounts(const KernelSetup& s) {
  return Kernel(
      [n = Elements(s.out[0]), inputs = static_cast<int>(s.in.size())](const KernelCall& call) {
        double* sums = call.output<double>(0);
        for (int64_t e = 0; e < n; ++e) {
          double sum = 0;
          for (int i = 0; i < inputs; ++i) sum += call.input<double>(i)[e];
          sums[e] = sum;
        }
        return absl::OkStatus();
      });
}

// An expert that was chosen less often than the mean is preferred by `rate` more from now on, one
// that was chosen more often by as much less (DeepSeek-AI 2024, DeepSeek-V3). `old` may be `bias`.
template <typename T>
void EvenBias(double rate, const double* counts, int64_t experts, const T* old, T* bias) {
  const double all = std::accumulate(counts, counts + experts, 0.0);
  for (int64_t e = 0; e < experts; ++e) {
    const double of = counts[e] * static_cast<double>(experts);  // whole numbers: exact
    bias[e] = old[e] + static_cast<T>(of < all ? rate : of > all ? -rate : 0.0);
  }
}

// The actor's inputs are the counts and, if it waits for it, the norm: a step that adamw skips
// leaves the bias, too. The bias is an update register.
absl::StatusOr<Kernel> MakeEvenBias(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [experts = Elements(s.out[0]), rate = DoubleAttr(s, "rate"),
            with_norm = s.in.size() > 1](const KernelCall& call) {
      if (with_norm && !std::isfinite(*call.input<double>(1))) return absl::OkStatus();
      T* bias = call.output<T>(0);
      EvenBias(rate, call.input<double>(0), experts, bias, bias);
      return absl::OkStatus();
    };
  });
}

// Writes the next version of the bias, from the newest (input 0) and the counts (input 1).
absl::StatusOr<Kernel> MakeNextEvenBias(const KernelSetup& s) {
  return ForFloats(s, s.out[0].dtype, [&]<typename T>(T) -> Kernel {
    return [experts = Elements(s.out[0]), rate = DoubleAttr(s, "rate")](const KernelCall& call) {
      EvenBias(rate, call.input<double>(1), experts, call.input<T>(0), call.output<T>(0));
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable OptimizerTable() {
  return {{"adamw", MakeAdamW},
          {"add_counts", MakeAddCounts},
          {"even_bias", MakeEvenBias},
          {"global_norm", MakeGlobalNorm},
          {"next_adamw", MakeNextAdamW},
          {"next_even_bias", MakeNextEvenBias},
          {"sum_in_order", MakeSumInOrder},
          {"sum_squares", MakeSumSquares}};
}

}  // namespace oneflow
