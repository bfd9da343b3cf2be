#include "actor_runtime/kernel/simd/attention_kernels.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

// One head with rows of q, k and v side by side, [t, 3, d]: the inputs and outputs of a call.
template <typename T>
struct Case {
  int64_t t, d;
  std::vector<T> qkv, dout, out, lse, dqkv;

  Case(int64_t positions, int64_t width)
      : t(positions), d(width), qkv(t * 3 * d), dout(t * d), out(t * d), lse(t), dqkv(t * 3 * d) {
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = T(2 * std::sin(0.7 * double(i)));
    for (size_t i = 0; i < dout.size(); ++i) dout[i] = T(std::cos(1.3 * double(i)));
  }
};

// The reference, in double, straight from the definition.
void Plain(Case<double>& c) {
  const double scale = 1 / std::sqrt(double(c.d));
  auto at = [&](int64_t row, int which) { return row * 3 * c.d + which * c.d; };
  for (int64_t i = 0; i < c.t; ++i) {
    std::vector<double> p(i + 1);
    double sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (int64_t x = 0; x < c.d; ++x) score += c.qkv[at(i, 0) + x] * c.qkv[at(j, 1) + x];
      sum += p[j] = std::exp(score * scale);
    }
    c.lse[i] = std::log(sum);
    for (int64_t j = 0; j <= i; ++j) p[j] /= sum;
    for (int64_t j = 0; j <= i; ++j) {
      for (int64_t x = 0; x < c.d; ++x) c.out[i * c.d + x] += p[j] * c.qkv[at(j, 2) + x];
    }
    double delta = 0;
    for (int64_t x = 0; x < c.d; ++x) delta += c.dout[i * c.d + x] * c.out[i * c.d + x];
    for (int64_t j = 0; j <= i; ++j) {
      double dp = 0;
      for (int64_t x = 0; x < c.d; ++x) dp += c.dout[i * c.d + x] * c.qkv[at(j, 2) + x];
      const double ds = p[j] * (dp - delta) * scale;
      for (int64_t x = 0; x < c.d; ++x) {
        c.dqkv[at(i, 0) + x] += ds * c.qkv[at(j, 1) + x];
        c.dqkv[at(j, 1) + x] += ds * c.qkv[at(i, 0) + x];
        c.dqkv[at(j, 2) + x] += p[j] * c.dout[i * c.d + x];
      }
    }
  }
}

// A thread's workspace, not a byte more, full of what is not a number.
template <typename T>
struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  T* data;

  Scratch(int64_t t, int64_t d) {
    size_t bytes = AttentionWorkspacePerThread(t, d), space = bytes + 64;
    memory = std::make_unique<std::byte[]>(space);
    std::memset(memory.get(), 0xff, space);
    void* at = memory.get();
    data = static_cast<T*>(std::align(64, bytes, at, space));
  }
};

template <typename T>
void Run(const AttentionKernels<T>& kernels, Case<T>& c, bool accumulate = false) {
  const Scratch<T> scratch(c.t, c.d);
  const T* q = c.qkv.data();
  const AttentionHead<T> head{q, q + c.d, q + 2 * c.d, 3 * c.d, c.t, c.d};
  kernels.forward(head, c.out.data(), c.d, c.lse.data(), accumulate, scratch.data);
  if (accumulate) return;
  const Scratch<T> second(c.t, c.d);
  T* dq = c.dqkv.data();
  kernels.backward(head, c.dout.data(), c.out.data(), c.d, c.lse.data(), dq, dq + c.d, dq + 2 * c.d,
                   second.data);
}

template <typename T>
void CheckNear(const std::vector<T>& got, const std::vector<double>& want, double margin) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(got[i] - want[i]) <= margin * (1 + std::fabs(want[i])))) {
      FAIL("element " << i << ": " << got[i] << " for " << want[i]);
    }
  }
}

constexpr int64_t kSizes[][2] = {{1, 1},   {3, 5},   {16, 32},  {17, 33}, {63, 64},
                                 {64, 32}, {65, 40}, {130, 64}, {200, 7}};

TEMPLATE_TEST_CASE("attention agrees with its plain twin on every instruction set", "", float,
                   double) {
  const double margin = sizeof(TestType) == 4 ? 2e-5 : 1e-13;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    const auto* kernels = AttentionKernelsFor<TestType>(isa);
    if (kernels == nullptr) continue;
    for (const auto& [t, d] : kSizes) {
      INFO("isa " << static_cast<int>(isa) << ", t " << t << ", d " << d);
      Case<TestType> c(t, d);
      Case<double> want(t, d);
      Run(*kernels, c);
      Plain(want);
      CheckNear(c.out, want.out, margin);
      CheckNear(c.lse, want.lse, margin);
      CheckNear(c.dqkv, want.dqkv, margin);
    }
  }
}

TEST_CASE("attention adds to what is there") {
  Case<double> once(65, 5), twice(65, 5);
  Run(*AttentionKernelsFor<double>(BestIsa()), once);
  Run(*AttentionKernelsFor<double>(BestIsa()), twice);
  Run(*AttentionKernelsFor<double>(BestIsa()), twice, /*accumulate=*/true);
  for (double& x : once.out) x *= 2;
  CheckNear(twice.out, once.out, 1e-15);
}

TEST_CASE("a position's bits depend on what it sees only") {
  Case<float> all(150, 40), some(70, 40);
  Run(*AttentionKernelsFor<float>(BestIsa()), all);
  Run(*AttentionKernelsFor<float>(BestIsa()), some);
  CHECK(std::memcmp(all.out.data(), some.out.data(), some.out.size() * sizeof(float)) == 0);
  CHECK(std::memcmp(all.lse.data(), some.lse.data(), some.lse.size() * sizeof(float)) == 0);
}

}  // namespace
}  // namespace oneflow
