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

TEST_CASE("bits depend neither on threads nor on which rows a device holds") {
  CheckBits<float, float>();
  CheckBits<Bf16, float>();
  CheckBits<Bf16, Bf16>();
}

}  // namespace
}  // namespace oneflow
