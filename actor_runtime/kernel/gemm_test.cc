#include "actor_runtime/kernel/gemm.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_test_util.h"
#include "oneflow_core/op/workspace.h"

namespace oneflow {
namespace {

constexpr Isa kAll[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

template <typename T>
double Wide(T x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return ToFloat(x);
  } else {
    return x;
  }
}

template <typename T>
std::vector<T> Narrowed(const Values& values) {
  std::vector<T> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, Bf16>) {
      result[i] = ToBf16(static_cast<float>(values[i]));
    } else {
      result[i] = static_cast<T>(values[i]);
    }
  }
  return result;
}

// 64-byte aligned.
struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  explicit Scratch(int64_t bytes) : memory(new std::byte[bytes + 64]) {}
  std::byte* data() const {
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
  }
};

template <typename A, typename B, typename C>
struct Problem {
  using T = FactorOf<A, B>;
  using Args = GemmArgs<A, B, C>;

  int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::vector<A> a;
  std::vector<B> b;
  std::vector<SumOf<T>> bias;

  Problem(int64_t m_, int64_t n_, int64_t k_, bool ta, bool tb)
      : m(m_), n(n_), k(k_), transpose_a(ta), transpose_b(tb) {
    a = Narrowed<A>(RandomValues(m * k, 1));
    b = Narrowed<B>(RandomValues(k * n, 2));
    bias = Narrowed<SumOf<T>>(RandomValues(n, 3));
  }
  Strided<A> Left() const {
    return transpose_a ? Strided<A>{a.data(), 1, m} : Strided<A>{a.data(), k, 1};
  }
  Strided<B> Right() const {
    return transpose_b ? Strided<B>{b.data(), 1, k} : Strided<B>{b.data(), n, 1};
  }

  // Rows [first, first + rows) of the product, with bias, on top of `start` if that is not 0.
  std::vector<C> Run(const ProductKernels<T>& kernels, int threads, int64_t first, int64_t rows,
                     double start = 0) const {
    std::vector<C> c = Narrowed<C>(Values(rows * n, start == 0 ? 99 : start));
    const Scratch scratch(ProductWorkspace(rows, n, k));
    const Args args{rows, n, k, Left().At(first, 0), Right(), c.data(), n, start != 0, bias.data()};
    ThreadPool pool(threads);
    if (threads == 1) {
      GemmSerial(kernels, args, scratch.data());
    } else {
      Gemm(kernels, args, scratch.data(), pool);
    }
    return c;
  }

  // The plain loop, in f64.
  double Exact(int64_t i, int64_t j) const {
    double sum = bias[j];
    for (int64_t p = 0; p < k; ++p) {
      double x = Wide(*Left().At(i, p).data), y = Wide(*Right().At(p, j).data);
      if (std::is_same_v<T, Bf16>) {
        x = Wide(ToBf16(static_cast<float>(x)));
        y = Wide(ToBf16(static_cast<float>(y)));
      }
      sum += x * y;
    }
    return sum;
  }

  // The largest, of every step-th element.
  double Error(const std::vector<C>& c, double start, int64_t step = 1) const {
    double worst = 0;
    for (int64_t at = 0; at < m * n; at += step) {
      const double exact = Exact(at / n, at % n) + start;
      const double error = std::fabs(exact - Wide(c[at])) / (1 + std::sqrt(static_cast<double>(k)));
      if (!std::isfinite(error)) return INFINITY;  // which std::max would pass over
      worst = std::max(worst, error);
    }
    return worst;
  }
};

template <typename A, typename B, typename C>
void CheckAll(double tolerance) {
  const int64_t shapes[][3] = {{1, 1, 1},     {14, 32, 8},   {15, 33, 1},   {3, 65, 300},
                               {29, 7, 513},  {100, 1, 70},  {230, 50, 41}, {17, 2100, 5},
                               {5, 4, 0},     {4, 20, 3200}, {48, 96, 64},  {24, 112, 50},
                               {24, 144, 66}, {800, 8, 800}};
  for (Isa isa : kAll) {
    const auto* kernels = ProductKernelsFor<FactorOf<A, B>>(isa);
    if (kernels == nullptr) continue;
    for (const auto& [m, n, k] : shapes) {
      for (int form = 0; form < 4; ++form) {
        INFO(m << "x" << n << "x" << k << " form " << form << " isa " << static_cast<int>(isa));
        const Problem<A, B, C> p(m, n, k, form & 1, form & 2);
        CHECK(p.Error(p.Run(*kernels, 1, 0, m), 0) < tolerance);
        if constexpr (!std::is_same_v<C, Bf16>) {
          CHECK(p.Error(p.Run(*kernels, 1, 0, m, 7), 7) < tolerance);
        }
      }
    }
  }
}

TEST_CASE("products agree with the plain loop, in all forms and instruction sets") {
  CheckAll<float, float, float>(4e-6);
  CheckAll<double, double, double>(1e-14);
}

TEST_CASE("products of bf16 agree with the plain loop, in all forms and instruction sets") {
  constexpr double kUnit = 0x1p-7;
  CheckAll<Bf16, Bf16, float>(4e-6);
  CheckAll<Bf16, Bf16, Bf16>(kUnit);
  CheckAll<float, Bf16, float>(4e-6);
  CheckAll<Bf16, float, Bf16>(kUnit);
}

// More rows, columns and depth than a block has.
template <typename T, typename C>
void CheckBlocks(double tolerance) {
  const int64_t side = kProductBlockBytes / kProductDepthBytes + 37;
  const int64_t k = 2 * kProductDepthBytes / static_cast<int64_t>(sizeof(T)) - 99;
  for (bool transposed : {false, true}) {
    const Problem<T, T, C> p(side, side, k, transposed, !transposed);
    const std::vector<C> c = p.Run(BestProductKernels<T>(), 2, 0, p.m);
    CHECK(p.Error(c, 0, 9973) < tolerance);
    CHECK(c == p.Run(BestProductKernels<T>(), 1, 0, p.m));
  }
}

TEST_CASE("products of several blocks") {
  CheckBlocks<float, float>(4e-6);
  CheckBlocks<Bf16, float>(4e-6);
  CheckBlocks<Bf16, Bf16>(0x1p-7);
}

TEST_CASE("a bf16 result is the f32 result, rounded once") {
  for (int64_t k : {100, 5000}) {
    const Problem<Bf16, Bf16, Bf16> narrow(37, 70, k, false, true);
    const Problem<Bf16, Bf16, float> wide(37, 70, k, false, true);
    const auto rounded = narrow.Run(BestProductKernels<Bf16>(), 1, 0, 37);
    const auto sums = wide.Run(BestProductKernels<Bf16>(), 1, 0, 37);
    for (size_t i = 0; i < sums.size(); ++i) CHECK(rounded[i] == ToBf16(sums[i]));
  }
}

template <typename A, typename B, typename C>
void CheckBits() {
  for (bool transpose_a : {false, true}) {
    const Problem<A, B, C> p(301, 333, 3600, transpose_a, false);
    const auto& kernels = BestProductKernels<FactorOf<A, B>>();
    const std::vector<C> whole = p.Run(kernels, 1, 0, p.m);
    for (int threads : {2, 3}) CHECK(p.Run(kernels, threads, 0, p.m) == whole);
    const std::vector<C> rows = p.Run(kernels, 2, 100, 57);
    CHECK(std::memcmp(rows.data(), whole.data() + 100 * p.n, rows.size() * sizeof(C)) == 0);
  }
}

TEST_CASE("bits depend neither on threads nor on which rows a device holds") {
  CheckBits<float, float, float>();
  CheckBits<Bf16, Bf16, float>();
  CheckBits<Bf16, Bf16, Bf16>();
  CheckBits<float, Bf16, Bf16>();
}

}  // namespace
}  // namespace oneflow
