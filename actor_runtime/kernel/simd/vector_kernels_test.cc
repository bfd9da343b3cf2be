#include "actor_runtime/kernel/simd/vector_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/random/random.h"

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
    std::vector<float> wrong;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      const double allowed = (exact > 1.2e-38 ? 0 : 2e-45) + 2e-7 * exact;  // denormal: one unit
      if (exact < 3.3e38 && std::fabs(y[i] - exact) > allowed) wrong.push_back(x[i]);
    }
    CHECK(wrong == std::vector<float>{});
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

TEST_CASE("an element's bits do not depend on its position in a row") {
  const auto& v = *VectorFor<float>(BestIsa());
  std::vector<float> x(200), full(200), part(200);
  for (int i = 0; i < 200; ++i) x[i] = std::sin(static_cast<float>(i)) * 3;
  v.gelu(x.data(), full.data(), 200, false);
  for (int begin : {1, 3, 17, 63}) {
    for (int n : {1, 5, 16, 100}) {
      v.gelu(x.data() + begin, part.data(), n, false);
      CHECK(std::memcmp(part.data(), full.data() + begin, n * sizeof(float)) == 0);
    }
  }
}

float Wide(Bf16 x) { return ToFloat(x); }
float Wide(float x) { return x; }
double Wide(double x) { return x; }
template <typename S, typename T>
S Stored(T x) {
  if constexpr (std::is_same_v<S, Bf16>) return ToBf16(x);
  return S(x);
}

// The scalar reference of dropout: word by word, from the scalar generator.
template <typename T, typename S>
void PlainDropout(const RandomStream& stream, uint32_t drop_below, double scale, uint64_t first,
                  const S* x, S* y, int64_t n, bool accumulate) {
  for (int64_t i = 0; i < n; ++i) {
    const bool dropped = stream.Word(first + static_cast<uint64_t>(i)) < drop_below;
    const T value = dropped ? T(0) : Wide(x[i]) * T(scale);
    y[i] = Stored<S>(accumulate ? Wide(y[i]) + value : value);
  }
}

template <typename T, typename S>
void CheckDropout(Isa isa) {
  const auto* v = VectorFor<T, S>(isa);
  if (v == nullptr) return;
  const RandomStream stream(0x123456789abcdef0, "h.0.attn.drop", 7);
  const DropoutNumbers numbers{stream.key(), stream.stream(), 0x40000000, 4.0 / 3};
  for (const uint64_t first :
       {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40, (uint64_t{1} << 35) - 9}) {
    for (const int64_t n : {0, 1, 26, 27, 32, 64, 100}) {
      for (const bool accumulate : {false, true}) {
        INFO("isa " << static_cast<int>(isa) << " first " << first << " n " << n);
        std::vector<S> x(n), y(n, Stored<S>(T(3))), expected(n, Stored<S>(T(3)));
        for (int64_t i = 0; i < n; ++i) x[i] = Stored<S>(std::sin(static_cast<T>(i)) * 3);
        v->dropout(numbers, first, x.data(), y.data(), n, accumulate);
        PlainDropout<T>(stream, numbers.drop_below, numbers.scale, first, x.data(), expected.data(),
                        n, accumulate);
        REQUIRE(y == expected);
        if (accumulate) continue;
        v->dropout(numbers, first, x.data(), x.data(), n, false);  // in place
        REQUIRE(x == expected);
      }
    }
  }
}

TEST_CASE("dropout equals its scalar reference, bit for bit, at every offset in a group") {
  for (Isa isa : kAll) {
    CheckDropout<float, float>(isa);
    CheckDropout<float, Bf16>(isa);
    CheckDropout<double, double>(isa);
  }
}

template <typename T, typename S>
void CheckStoredMask(Isa isa) {
  const auto* v = VectorFor<T, S>(isa);
  if (v == nullptr) return;
  const DropoutNumbers numbers{0x123456789abcdef0, 42, 0x40000000, 4.0 / 3};
  for (const uint64_t first : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40}) {
    for (const int64_t n : {0, 1, 31, 32, 33, 100}) {
      for (const bool accumulate : {false, true}) {
        INFO("isa " << static_cast<int>(isa) << " first " << first << " n " << n);
        std::vector<S> x(n), y(n, Stored<S>(T(3))), expected(n, Stored<S>(T(3)));
        std::vector<uint8_t> mask(n, 7);
        for (int64_t i = 0; i < n; ++i) x[i] = Stored<S>(std::sin(static_cast<T>(i)) * 3);
        v->dropout(numbers, first, x.data(), expected.data(), n, accumulate);
        v->dropout_mask(numbers, first, mask.data(), n);
        v->apply_mask(mask.data(), static_cast<T>(numbers.scale), x.data(), y.data(), n,
                      accumulate);
        REQUIRE(y == expected);
        for (const uint8_t kept : mask) REQUIRE(kept <= 1);
      }
    }
  }
}

TEST_CASE("a mask that is stored and applied is dropout, bit for bit") {
  for (Isa isa : kAll) {
    CheckStoredMask<float, float>(isa);
    CheckStoredMask<float, Bf16>(isa);
    CheckStoredMask<double, double>(isa);
  }
}

TEST_CASE("a dropped element is zero, even if it was infinite") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(64, inf), y(64);
  VectorFor<float>(BestIsa())->dropout({1, 2, 0xffffffff, 1}, 0, x.data(), y.data(), 64, false);
  CHECK(y == std::vector<float>(64, 0));
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
      CHECK(v->row_sum_exp(x.data(), 2, n) ==
            Approx(wide.row_sum_exp(dx.data(), 2, n)).epsilon(1e-5));
      if (n > 0) CHECK(v->row_max(x.data(), n) == static_cast<float>(wide.row_max(dx.data(), n)));
      std::vector<float> negative = x;
      for (float& value : negative) value -= 3;
      if (n > 0) {
        CHECK(v->row_max(negative.data(), n) ==
              *std::max_element(negative.begin(), negative.begin() + n));
      }
      v->gelu_grad(x.data(), x.data(), y.data(), n, false);
      wide.gelu_grad(dx.data(), dx.data(), dy.data(), n, false);
      for (int64_t i = 0; i < n; ++i) CHECK(y[i] == Approx(dy[i]).epsilon(1e-5).margin(1e-6));
      v->softmax_grad_row(x.data(), x.data(), 0.5, y.data(), n, false);
      wide.softmax_grad_row(dx.data(), dx.data(), 0.5, dy.data(), n, false);
      for (int64_t i = 0; i < n; ++i) CHECK(y[i] == Approx(dy[i]).epsilon(1e-5).margin(1e-4));
    }
  }
}

// Angles of all sizes, in steps that are no part of pi, and in vectors with and without a rest.
TEST_CASE("cosines and sines are right to f32's last place, and turn the other way exactly") {
  std::vector<float> frequencies;
  for (int j = 0; j < 37; ++j) frequencies.push_back(std::pow(1e6f, -static_cast<float>(j) / 37));
  const auto n = static_cast<int64_t>(frequencies.size());
  for (Isa isa : kAll) {
    const auto* v = VectorFor<float>(isa);
    const auto* wide = VectorFor<double>(isa);
    if (v == nullptr) continue;
    std::vector<float> wrong;
    for (const float position :
         {0.0f, 1.0f, 2.0f, 777.0f, 8191.0f, 131071.0f, 1e7f, 2147483520.0f}) {
      std::vector<float> c(n), s(n), back_c(n), back_s(n);
      std::vector<double> wide_c(n), wide_s(n);
      v->rotary_angles(position, 1, frequencies.data(), c.data(), s.data(), n);
      v->rotary_angles(-position, 1, frequencies.data(), back_c.data(), back_s.data(), n);
      wide->rotary_angles(position, 1, frequencies.data(), wide_c.data(), wide_s.data(), n);
      for (int64_t j = 0; j < n; ++j) {
        const double angle = position * frequencies[j];  // of floats: rounded to f32
        const bool right = std::fabs(c[j] - std::cos(angle)) <= 3.1e-8 &&
                           std::fabs(s[j] - std::sin(angle)) <= 3.1e-8 && back_c[j] == c[j] &&
                           back_s[j] == -s[j] && wide_c[j] == c[j] && wide_s[j] == s[j];
        if (!right) wrong.push_back(position * frequencies[j]);
      }
    }
    INFO("isa " << static_cast<int>(isa));
    CHECK(wrong == std::vector<float>{});
  }
}

template <typename T, typename S>
void CheckRotate(Isa isa) {
  const auto* v = VectorFor<T, S>(isa);
  if (v == nullptr) return;
  for (const int64_t half : {1, 5, 16, 33, 64}) {
    for (const bool accumulate : {false, true}) {
      constexpr int64_t kHeads = 3;
      const int64_t d = 2 * half + half % 3;  // some elements are not turned
      std::vector<S> x(kHeads * d), y(x.size(), Stored<S>(T(3)));
      for (size_t i = 0; i < x.size(); ++i) x[i] = Stored<S>(std::sin(static_cast<T>(i)) * 3);
      std::vector<T> c(half), s(half);
      for (int64_t j = 0; j < half; ++j) {
        c[j] = std::cos(static_cast<T>(j)), s[j] = std::sin(static_cast<T>(j));
      }
      v->rotate(x.data(), c.data(), s.data(), y.data(), kHeads, d, half, half, accumulate);
      const double allowed = std::is_same_v<S, Bf16> ? 0x1p-6 : 1e-6;
      for (int64_t i = 0; i < kHeads * half; ++i) {
        const int64_t j = i % half, at = i / half * d + j;
        INFO("isa " << static_cast<int>(isa) << " half " << half << " pair " << i);
        const T a = Wide(x[at]), b = Wide(x[at + half]), before = accumulate ? T(3) : T(0);
        REQUIRE(std::fabs(Wide(y[at]) - (before + a * c[j] - b * s[j])) <= allowed);
        REQUIRE(std::fabs(Wide(y[at + half]) - (before + b * c[j] + a * s[j])) <= allowed);
      }
      for (int64_t i = 0; i < kHeads * d; ++i) {
        if (i % d >= 2 * half) REQUIRE(Wide(y[i]) == T(3));
      }
    }
  }
}

TEST_CASE("pairs of every head are turned, in heads of any size") {
  for (Isa isa : kAll) {
    CheckRotate<float, float>(isa);
    CheckRotate<float, Bf16>(isa);
    CheckRotate<double, double>(isa);
  }
}

TEST_CASE("gated products and their gradients follow their formulas") {
  const auto& f = *VectorFor<float>(BestIsa());
  constexpr int64_t kN = 203;
  std::vector<float> gate(kN), up(kN), y(kN), dgate(kN), dup(kN), gelu(kN), slope(kN);
  for (int64_t i = 0; i < kN; ++i) {
    gate[i] = static_cast<float>(i - 100) * 0.37f;  // to where the sigmoid is 0 or 1
    up[i] = std::sin(static_cast<float>(i));
  }
  f.gated_silu.forward(gate.data(), up.data(), y.data(), kN, false);
  f.gated_silu.grad(up.data(), gate.data(), up.data(), dgate.data(), dup.data(), kN, false);
  for (int64_t i = 0; i < kN; ++i) {
    const double g = gate[i], u = up[i], s = 1 / (1 + std::exp(-g));
    CHECK(y[i] == Approx(g * s * u).epsilon(1e-6).margin(1e-12));
    CHECK(dup[i] == Approx(u * g * s).epsilon(1e-6).margin(1e-12));
    CHECK(dgate[i] == Approx(u * u * s * (1 + g * (1 - s))).epsilon(1e-5).margin(1e-6));
  }
  // Of gelu they are products with what its own loops give.
  f.gated_gelu.forward(gate.data(), up.data(), y.data(), kN, false);
  f.gated_gelu.grad(up.data(), gate.data(), up.data(), dgate.data(), dup.data(), kN, false);
  f.gelu(gate.data(), gelu.data(), kN, false);
  f.gelu_grad(up.data(), gate.data(), slope.data(), kN, false);
  for (int64_t i = 0; i < kN; ++i) {
    CHECK(y[i] == gelu[i] * up[i]);
    CHECK(dup[i] == up[i] * gelu[i]);
    CHECK(dgate[i] == Approx(slope[i] * up[i]).epsilon(1e-6));
  }
}

TEST_CASE("clamped gates and their gradients follow their formulas, at the limits, too") {
  std::vector<float> gate = {7, 7.0001f, 3, 3, 3, 3}, up = {2, 2, 7, -7, 7.0001f, -7.0001f};
  for (int i = 0; i < 201; ++i) {
    gate.push_back(static_cast<float>(i - 100) * 0.13f);
    up.push_back(12 * std::sin(static_cast<float>(i)));
  }
  const auto n = static_cast<int64_t>(gate.size());
  for (Isa isa : kAll) {
    const auto* f = VectorFor<float>(isa);
    if (f == nullptr) continue;
    std::vector<float> y(n), dgate(n), dup(n);
    const std::vector<float> dy(n, 0.5f);
    f->gated_clamped_silu.forward(gate.data(), up.data(), y.data(), n, false);
    f->gated_clamped_silu.grad(dy.data(), gate.data(), up.data(), dgate.data(), dup.data(), n,
                               false);
    for (int64_t i = 0; i < n; ++i) {
      INFO("isa " << static_cast<int>(isa) << " gate " << gate[i] << " up " << up[i]);
      const double g = std::min(7.0f, gate[i]), u = std::clamp(up[i], -7.0f, 7.0f);
      const double s = 1 / (1 + std::exp(-1.702 * g)), slope = s + 1.702 * g * s * (1 - s);
      CHECK(y[i] == Approx((u + 1) * g * s).epsilon(1e-6).margin(1e-6));
      CHECK(dgate[i] == Approx(gate[i] >= 7 ? 0 : 0.5 * (u + 1) * slope).margin(2e-6));
      CHECK(dup[i] == Approx(std::fabs(up[i]) >= 7 ? 0 : 0.5 * g * s).margin(2e-6));
    }
  }
}

TEST_CASE("a soft cap is that of the library's tanh to a few last places, at any size") {
  constexpr float kCap = 30;
  std::vector<float> x;
  for (float v = 1e-6f; v < 1e4f; v *= 1.01f) x.insert(x.end(), {v, -v});
  x.insert(x.end(), {0.0f, -0.0f, 3e38f, -3e38f});
  const auto n = static_cast<int64_t>(x.size());
  for (Isa isa : kAll) {
    const auto* f = VectorFor<float>(isa);
    if (f == nullptr) continue;
    std::vector<float> y(n), dx(n);
    f->soft_cap(kCap, x.data(), y.data(), n, false);
    f->soft_cap_grad(kCap, x.data(), y.data(), dx.data(), n, false);
    int wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double t = std::tanh(static_cast<double>(x[i]) / kCap);
      const double slope = 1 - static_cast<double>(y[i]) * y[i] / (kCap * kCap);
      wrong += !(std::fabs(y[i] - kCap * t) <= 4e-7 * kCap * std::fabs(t)) ||
               !(std::fabs(dx[i] - x[i] * slope) <= 3e-7 * std::fabs(x[i]));
    }
    INFO("isa " << static_cast<int>(isa));
    CHECK(wrong == 0);
  }
}

// Every upper half with the lower halves that decide: ties, their neighbours, both ends; and back.
TEST_CASE("bf16 is rounded to the bits of ToBf16 and widened exactly, denormals and NaN included") {
  std::vector<float> x, back;
  std::vector<Bf16> y;
  for (uint32_t high = 0; high < 1 << 16; ++high) {
    for (uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      x.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const int64_t n = static_cast<int64_t>(x.size());
  y.resize(n);
  back.resize(n);
  for (Isa isa : kAll) {
    const auto* v = VectorFor<float, Bf16>(isa);
    if (v == nullptr) continue;
    v->round(x.data(), y.data(), n, false);
    v->widen(y.data(), back.data(), n, false);
    std::vector<uint32_t> rounded_wrong, widened_wrong;
    for (int64_t i = 0; i < n; ++i) {
      const float wide = ToFloat(y[i]);
      if (y[i] != ToBf16(x[i])) rounded_wrong.push_back(std::bit_cast<uint32_t>(x[i]));
      if (std::memcmp(&back[i], &wide, sizeof(float)) != 0) widened_wrong.push_back(y[i].bits);
    }
    CHECK(rounded_wrong == std::vector<uint32_t>{});
    CHECK(widened_wrong == std::vector<uint32_t>{});
  }
}

// Rows of bf16 and f32 side by side, of lengths with and without a rest.
TEST_CASE("loops over bf16 are those over f32 between widening and rounding") {
  for (int64_t n : {1, 16, 33, 257}) {
    std::vector<float> x(n), wide(n);
    std::vector<Bf16> h(n), y(n);
    for (int64_t i = 0; i < n; ++i) {
      h[i] = ToBf16(std::cos(static_cast<float>(i)) * 3);
      x[i] = ToFloat(h[i]);
    }
    for (Isa isa : kAll) {
      const auto* f = VectorFor<float>(isa);
      const auto* b = VectorFor<float, Bf16>(isa);
      if (f == nullptr) continue;
      INFO("isa " << static_cast<int>(isa) << " n " << n);
      const auto rounded = [&] {
        for (int64_t i = 0; i < n; ++i) {
          if (y[i] != ToBf16(wide[i])) return false;
        }
        return true;
      };
      f->gelu(x.data(), wide.data(), n, false);
      b->gelu(h.data(), y.data(), n, false);
      CHECK(rounded());
      f->gelu_grad(x.data(), x.data(), wide.data(), n, false);
      b->gelu_grad(h.data(), h.data(), y.data(), n, false);
      CHECK(rounded());
      f->gated_silu.forward(x.data(), x.data(), wide.data(), n, false);
      b->gated_silu.forward(h.data(), h.data(), y.data(), n, false);
      CHECK(rounded());
      std::vector<float> other(n), rstd(1);
      std::vector<Bf16> narrow_other(n);
      f->gated_silu.grad(x.data(), x.data(), x.data(), wide.data(), other.data(), n, false);
      b->gated_silu.grad(h.data(), h.data(), h.data(), y.data(), narrow_other.data(), n, false);
      CHECK(rounded());
      f->rms_norm.forward(x.data(), x.data(), 0, 1e-5f, wide.data(), rstd.data(), 1, n);
      std::vector<float> narrow_rstd(1);
      b->rms_norm_narrow.forward(h.data(), x.data(), 0, 1e-5f, y.data(), narrow_rstd.data(), 1, n);
      CHECK(rounded());
      CHECK(narrow_rstd == rstd);
      b->rms_norm.forward(x.data(), x.data(), 0, 1e-5f, y.data(), narrow_rstd.data(), 1, n);
      CHECK(rounded());
      f->row_exp(x.data(), 2, 0.5, wide.data(), n, false);
      b->row_exp(h.data(), 2, 0.5, y.data(), n, false);
      CHECK(rounded());
      CHECK(b->row_max(h.data(), n) == f->row_max(x.data(), n));
      CHECK(b->row_sum_exp(h.data(), 2, n) == f->row_sum_exp(x.data(), 2, n));
      std::vector<float> sums(n, 1), expected(n, 1);
      f->accumulate(x.data(), expected.data(), n);
      b->accumulate(h.data(), sums.data(), n);
      CHECK(sums == expected);
    }
  }
}

}  // namespace
}  // namespace oneflow
