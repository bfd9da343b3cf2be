#include "actor_runtime/kernel/simd/vector_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

constexpr Isa kAll[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512};

TEST_CASE("exp is right to about one unit in the last place, from underflow to overflow") {
  std::vector<float> x, y;
  for (double v = -110; v < 90; v += 0.00137) x.push_back(static_cast<float>(v));
  y.resize(x.size());
  for (Isa isa : kAll) {
    const auto* v = VectorFor<float>(isa);
    if (v == nullptr) continue;
    v->exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      if (exact > 1.2e-38 && exact < 3.3e38) {
        if (std::fabs(y[i] - exact) > 2e-7 * exact) FAIL("exp(" << x[i] << ") = " << y[i]);
      } else if (exact <= 1.2e-38) {
        if (std::fabs(y[i] - exact) > 2e-45 + 2e-7 * exact) FAIL("exp(" << x[i] << ") = " << y[i]);
      }
    }
  }
}

TEST_CASE("exp of special values") {
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {0, -0.0f, -inf, inf, std::numeric_limits<float>::quiet_NaN(), 100, -200};
  for (Isa isa : kAll) {
    const auto* v = VectorFor<float>(isa);
    if (v == nullptr) continue;
    float y[7];
    v->exp(x, y, 7);
    CHECK(y[0] == 1);
    CHECK(y[1] == 1);
    CHECK(y[2] == 0);
    CHECK(y[3] == inf);
    CHECK(std::isnan(y[4]));
    CHECK(y[5] == inf);
    CHECK(y[6] == 0);
  }
}

TEST_CASE("an element's bits do not depend on where it lies in a row") {
  const auto& v = Vector<float>();
  std::vector<float> x(200), whole(200), part(200);
  for (int i = 0; i < 200; ++i) x[i] = std::sin(static_cast<float>(i)) * 3;
  v.gelu(x.data(), whole.data(), 200, false);
  for (int begin : {1, 3, 17, 63}) {
    for (int n : {1, 5, 16, 100}) {
      v.gelu(x.data() + begin, part.data(), n, false);
      CHECK(std::memcmp(part.data(), whole.data() + begin, n * sizeof(float)) == 0);
    }
  }
}

// Every instruction set, f32, against the f64 baseline.
TEST_CASE("instruction sets agree") {
  const auto& wide = *VectorFor<double>(Isa::kBaseline);
  for (int64_t n : {0, 1, 7, 16, 33, 100, 257}) {
    std::vector<float> x(n), y(n);
    std::vector<double> dx(n), dy(n);
    for (int64_t i = 0; i < n; ++i) dx[i] = x[i] = std::cos(static_cast<float>(i)) * 2;
    for (Isa isa : kAll) {
      const auto* v = VectorFor<float>(isa);
      if (v == nullptr) continue;
      INFO("isa " << static_cast<int>(isa) << " n " << n);
      CHECK(v->sum_squares(x.data(), n) == Approx(wide.sum_squares(dx.data(), n)));
      CHECK(v->dot(x.data(), x.data(), n) ==
            Approx(wide.dot(dx.data(), dx.data(), n)).epsilon(1e-5));
      CHECK(v->row_sum_exp(x.data(), 2, n) ==
            Approx(wide.row_sum_exp(dx.data(), 2, n)).epsilon(1e-5));
      if (n > 0) CHECK(v->row_max(x.data(), n) == static_cast<float>(wide.row_max(dx.data(), n)));
      v->gelu_grad(x.data(), x.data(), y.data(), n, false);
      wide.gelu_grad(dx.data(), dx.data(), dy.data(), n, false);
      for (int64_t i = 0; i < n; ++i) CHECK(y[i] == Approx(dy[i]).epsilon(1e-5).margin(1e-6));
    }
  }
}

}  // namespace
}  // namespace oneflow
