#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel_test_util.h"
#include "oneflow_core/op/workspace.h"

namespace oneflow {
namespace {

template <typename T>
struct Problem {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::vector<T> a, b;

  Problem(int64_t m_, int64_t n_, int64_t k_, bool ta, bool tb)
      : m(m_), n(n_), k(k_), transpose_a(ta), transpose_b(tb) {
    const Values va = RandomValues(m * k, 1), vb = RandomValues(k * n, 2);
    a.assign(va.begin(), va.end());
    b.assign(vb.begin(), vb.end());
  }
  Strided<T> A() const {
    return transpose_a ? Strided<T>{a.data(), 1, m} : Strided<T>{a.data(), k, 1};
  }
  Strided<T> B() const {
    return transpose_b ? Strided<T>{b.data(), 1, k} : Strided<T>{b.data(), n, 1};
  }

  // Rows [first, first + rows) of the product on top of `start`.
  std::vector<T> Run(const VectorKernels<T>& v, int threads, int64_t first, int64_t rows, T start,
                     bool accumulate) const {
    std::vector<T> c(rows * n, start);
    const int64_t bytes = ProductWorkspace(rows, n, k, threads);
    std::unique_ptr<std::byte[]> memory(new std::byte[bytes + 64]);
    auto* scratch =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
    Strided<T> at = A();
    at.data += first * at.row;
    ThreadPool pool(threads);
    Gemm<T>(v, {rows, n, k, at, B(), c.data(), n, accumulate}, scratch, pool);
    return c;
  }

  double Error(const std::vector<T>& c, double start) const {
    double worst = 0;
    const Strided<T> sa = A(), sb = B();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = start;
        for (int64_t p = 0; p < k; ++p) {
          sum +=
              double(sa.data[i * sa.row + p * sa.col]) * double(sb.data[p * sb.row + j * sb.col]);
        }
        const double error = std::fabs(sum - double(c[i * n + j])) / (1 + std::sqrt(double(k)));
        if (!std::isfinite(error)) return INFINITY;  // which std::max would pass over
        worst = std::max(worst, error);
      }
    }
    return worst;
  }
};

template <typename T>
void CheckAll(double tolerance) {
  const int64_t shapes[][3] = {{1, 1, 1},     {14, 32, 8},   {15, 33, 1},
                               {3, 65, 300},  {29, 7, 513},  {100, 1, 70},
                               {230, 50, 40}, {17, 2100, 5}, {5, 4, 0}};
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    const VectorKernels<T>* v = VectorFor<T>(isa);
    if (v == nullptr) continue;
    for (const auto& [m, n, k] : shapes) {
      for (int form = 0; form < 4; ++form) {
        INFO(m << "x" << n << "x" << k << " form " << form << " isa " << static_cast<int>(isa));
        const Problem<T> p(m, n, k, form & 1, form & 2);
        CHECK(p.Error(p.Run(*v, 1, 0, m, T(7), false), 0) < tolerance);
        CHECK(p.Error(p.Run(*v, 1, 0, m, T(7), true), 7) < tolerance);
      }
    }
  }
}

TEST_CASE("products agree with the plain loop, in all forms and instruction sets") {
  CheckAll<float>(1e-6);
  CheckAll<double>(1e-14);
}

TEST_CASE("bits depend neither on threads nor on which rows a device holds") {
  for (bool transpose_a : {false, true}) {
    const Problem<float> p(301, 333, 600, transpose_a, false);
    const std::vector<float> whole = p.Run(Vector<float>(), 1, 0, p.m, 0, false);
    for (int threads : {2, 3}) CHECK(p.Run(Vector<float>(), threads, 0, p.m, 0, false) == whole);
    const std::vector<float> rows = p.Run(Vector<float>(), 2, 100, 57, 0, false);
    CHECK(std::memcmp(rows.data(), whole.data() + 100 * p.n, rows.size() * sizeof(float)) == 0);
  }
}

}  // namespace
}  // namespace oneflow
