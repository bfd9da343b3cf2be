// A matrix product with random operands, for the tests of gemm.h: run in any form, by any number of
// threads, on some of its rows, and compared with the plain loop.
//
//   const Problem<float, float> p(14, 32, 8, /*ta=*/false, /*tb=*/true);
//   CHECK(p.Error(p.Run(kernels, /*threads=*/2, 0, p.m), 0) < 4e-6);
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel_test_util.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {

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

template <typename T, typename C>
struct Problem {
  using Args = GemmArgs<T, C>;

  int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::vector<T> a, b;
  std::vector<SumType<T>> bias;

  Problem(int64_t m_, int64_t n_, int64_t k_, bool ta, bool tb)
      : m(m_), n(n_), k(k_), transpose_a(ta), transpose_b(tb) {
    a = Narrowed<T>(RandomValues(m * k, 1));
    b = Narrowed<T>(RandomValues(k * n, 2));
    bias = Narrowed<SumType<T>>(RandomValues(n, 3));
  }
  Strided<T> Left() const {
    return transpose_a ? Strided<T>{a.data(), 1, m} : Strided<T>{a.data(), k, 1};
  }
  Strided<T> Right() const {
    return transpose_b ? Strided<T>{b.data(), 1, k} : Strided<T>{b.data(), n, 1};
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
      sum += Wide(*Left().At(i, p).data) * Wide(*Right().At(p, j).data);
    }
    return sum;
  }

  // The largest error of every step-th element.
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

}  // namespace oneflow
