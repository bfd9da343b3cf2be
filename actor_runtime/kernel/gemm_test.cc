#include "actor_runtime/kernel/gemm.h"

#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/gemm_problem.h"

namespace oneflow {
namespace {

constexpr Isa kAll[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

template <typename T, typename C>
void CheckAll(double tolerance) {
  const int64_t shapes[][3] = {{1, 1, 1},     {14, 32, 8},   {15, 33, 1},   {3, 65, 300},
                               {29, 7, 513},  {100, 1, 70},  {230, 50, 41}, {17, 2100, 5},
                               {5, 4, 0},     {4, 20, 3200}, {48, 96, 64},  {24, 112, 50},
                               {24, 144, 66}, {800, 8, 800}};
  for (Isa isa : kAll) {
    const auto* kernels = ProductKernelsFor<T>(isa);
    if (kernels == nullptr) continue;
    for (const auto& [m, n, k] : shapes) {
      for (int form = 0; form < 4; ++form) {
        INFO(m << "x" << n << "x" << k << " form " << form << " isa " << static_cast<int>(isa));
        const Problem<T, C> p(m, n, k, form & 1, form & 2);
        CHECK(p.Error(p.Run(*kernels, 1, 0, m), 0) < tolerance);
        if constexpr (!std::is_same_v<C, Bf16>) {
          CHECK(p.Error(p.Run(*kernels, 1, 0, m, 7), 7) < tolerance);
        }
      }
    }
  }
}

TEST_CASE("products agree with the plain loop, in all forms and instruction sets") {
  CheckAll<float, float>(4e-6);
  CheckAll<double, double>(1e-14);
}

TEST_CASE("products of bf16 agree with the plain loop, in all forms and instruction sets") {
  CheckAll<Bf16, float>(4e-6);
  CheckAll<Bf16, Bf16>(0x1p-7);
}

// More rows, columns and depth than a block has.
template <typename T, typename C>
void CheckBlocks(double tolerance) {
  const int64_t side = kProductBlockBytes / kProductDepthBytes + 37;
  const int64_t k = 2 * kProductDepthBytes / static_cast<int64_t>(sizeof(T)) - 99;
  for (bool transposed : {false, true}) {
    const Problem<T, C> p(side, side, k, transposed, !transposed);
    const std::vector<C> c = p.Run(*ProductKernelsFor<T>(BestIsa()), 2, 0, p.m);
    CHECK(p.Error(c, 0, 9973) < tolerance);
    CHECK(c == p.Run(*ProductKernelsFor<T>(BestIsa()), 1, 0, p.m));
  }
}

TEST_CASE("products of several blocks") {
  CheckBlocks<float, float>(4e-6);
  CheckBlocks<Bf16, float>(4e-6);
  CheckBlocks<Bf16, Bf16>(0x1p-7);
}

TEST_CASE("a bf16 result is the f32 result, rounded once") {
  for (int64_t k : {100, 5000}) {
    const Problem<Bf16, Bf16> narrow(37, 70, k, false, true);
    const Problem<Bf16, float> wide(37, 70, k, false, true);
    const auto rounded = narrow.Run(*ProductKernelsFor<Bf16>(BestIsa()), 1, 0, 37);
    const auto sums = wide.Run(*ProductKernelsFor<Bf16>(BestIsa()), 1, 0, 37);
    for (size_t i = 0; i < sums.size(); ++i) CHECK(rounded[i] == ToBf16(sums[i]));
  }
}

}  // namespace
}  // namespace oneflow
