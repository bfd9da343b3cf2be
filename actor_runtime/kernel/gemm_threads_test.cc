// Products shared by threads: the sample that runs under the thread sanitizer.
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/gemm_problem.h"

namespace oneflow {
namespace {

template <typename T, typename C>
void CheckBits() {
  for (bool transpose_a : {false, true}) {
    const Problem<T, C> p(301, 333, 3600, transpose_a, false);
    const auto& kernels = *ProductKernelsFor<T>(BestIsa());
    const std::vector<C> full = p.Run(kernels, 1, 0, p.m);
    for (int threads : {2, 3}) CHECK(p.Run(kernels, threads, 0, p.m) == full);
    const std::vector<C> rows = p.Run(kernels, 2, 100, 57);
    CHECK(std::memcmp(rows.data(), full.data() + 100 * p.n, rows.size() * sizeof(C)) == 0);
  }
}

// Few rows are multiplied in another way than many.
template <typename T, typename C>
void CheckFewRows(Isa isa) {
  const auto* kernels = ProductKernelsFor<T>(isa);
  if (kernels == nullptr) return;
  const int64_t shapes[][2] = {{1, 1}, {33, 7}, {1090, 66}, {70, 3201}, {17, 3700}};
  for (const auto& [n, k] : shapes) {
    for (int form = 0; form < 4; ++form) {
      const Problem<T, C> p(20, n, k, form & 1, form & 2);
      const std::vector<C> full = p.Run(*kernels, 1, 0, p.m);
      for (int64_t rows = 1; rows <= kFewRows + 1; ++rows) {
        INFO("isa " << static_cast<int>(isa) << ", " << rows << " rows, n " << n << ", k " << k
                    << ", form " << form);
        const std::vector<C> few = p.Run(*kernels, rows % 2 + 1, 7, rows);
        CHECK(std::memcmp(few.data(), full.data() + 7 * n, few.size() * sizeof(C)) == 0);
      }
    }
  }
}

TEST_CASE("few rows have the bits of the same rows among many") {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    CheckFewRows<float, float>(isa);
    CheckFewRows<double, double>(isa);
    CheckFewRows<Bf16, float>(isa);
    CheckFewRows<Bf16, Bf16>(isa);
  }
}

TEST_CASE("bits depend neither on threads nor on which rows a device holds") {
  CheckBits<float, float>();
  CheckBits<Bf16, float>();
  CheckBits<Bf16, Bf16>();
}

}  // namespace
}  // namespace oneflow
