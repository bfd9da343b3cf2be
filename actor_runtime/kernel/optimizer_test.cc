#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow {
namespace {

struct State {
  double w, m, v;
};

// AdamW as it is written down, one element.
State Update(State s, double g, double norm, const StepNumbers& n, bool decay) {
  g *= n.clip > 0 ? std::min(1.0, n.clip / (norm + 1e-6)) : 1.0;
  s.m = n.beta1 * s.m + (1 - n.beta1) * g;
  s.v = n.beta2 * s.v + (1 - n.beta2) * g * g;
  const double m_hat = s.m / (1 - std::pow(n.beta1, n.step + 1));
  const double v_hat = s.v / (1 - std::pow(n.beta2, n.step + 1));
  const double wd = decay ? n.weight_decay : 0;
  s.w -= n.learning_rate * (m_hat / (std::sqrt(v_hat) + n.epsilon) + wd * s.w);
  return s;
}

KernelHarness AdamHarness(int64_t n, bool decay) {
  const Port x = FullPort({n}), scalar = FullPort({});
  KernelHarness h("adamw", {{"decay", decay}}, {{x}, {scalar}}, {x, x, x});
  h.run().optimizer = TestStepNumbers;
  return h;
}

TEST_CASE("next_adamw writes to another buffer what adamw writes in place") {
  constexpr int64_t kN = 5000;
  const Port x = FullPort({kN});
  KernelHarness in_place("adamw", {{"decay", true}}, {{x}}, {x, x, x});
  KernelHarness next("next_adamw", {{"decay", true}}, {{x}, {x}}, {x, x, x});
  const Values w = RandomValues(kN, 1), m = RandomValues(kN, 2), v = RandomValues(kN, 3, 0, 1);
  const Values g = RandomValues(kN, 4);
  for (KernelHarness* h : {&in_place, &next}) {
    h->run().optimizer = TestStepNumbers;
    REQUIRE(h->Make() == absl::OkStatus());
  }
  const Values* of_adamw[] = {&w, &m, &v, &g};
  const Values* of_next[] = {&m, &v, &w, &g};
  for (int i = 0; i < 4; ++i) {
    SetOpInput(in_place, i, *of_adamw[i]);
    SetOpInput(next, i, *of_next[i]);
  }
  REQUIRE(in_place.Call(false, 3) == absl::OkStatus());
  REQUIRE(next.Call(false, 3) == absl::OkStatus());
  CHECK(next.Output(2) == in_place.Output(0));
  CHECK(next.Output(0) == in_place.Output(1));
  CHECK(next.Output(1) == in_place.Output(2));
  CHECK(next.Output(2) != w);
}

TEST_CASE("adamw follows its formula over steps, with and without decay and clipping") {
  constexpr int64_t kN = 37;
  for (bool decay : {false, true}) {
    for (double norm : {0.5, 4.0}) {
      std::vector<State> expected(kN);
      Values w = RandomValues(kN, 1), m(kN, 0), v(kN, 0);
      for (int64_t i = 0; i < kN; ++i) expected[i] = {w[i], 0, 0};
      KernelHarness h = AdamHarness(kN, decay);
      h.run().first_step = 10;  // a run that was resumed
      REQUIRE(h.Make() == absl::OkStatus());
      for (int64_t firing = 0; firing < 4; ++firing) {
        const Values g = RandomValues(kN, 50 + firing);
        const Values* in[] = {&w, &m, &v, &g};
        for (int i = 0; i < 4; ++i) SetOpInput(h, i, *in[i]);
        SetOpInput(h, 4, {norm});
        REQUIRE(h.Call(false, firing) == absl::OkStatus());
        w = h.Output(0), m = h.Output(1), v = h.Output(2);
        for (int64_t i = 0; i < kN; ++i) {
          expected[i] = Update(expected[i], g[i], norm, TestStepNumbers(10 + firing), decay);
          REQUIRE(w[i] == Approx(expected[i].w).epsilon(1e-12));
          REQUIRE(m[i] == Approx(expected[i].m).epsilon(1e-12));
          REQUIRE(v[i] == Approx(expected[i].v).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("a norm that is not finite skips the step") {
  const double inf = std::numeric_limits<double>::infinity();
  for (double norm : {inf, std::numeric_limits<double>::quiet_NaN()}) {
    KernelHarness h = AdamHarness(3, true);
    const Values w{1, 2, 3}, m{4, 5, 6}, v{7, 8, 9};
    h.SetOutput(0, w);
    h.SetOutput(1, m);
    h.SetOutput(2, v);
    h.SetInput(0, {inf, 0, 1});
    h.SetInput(1, {norm});
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    CHECK(h.Output(0) == w);
    CHECK(h.Output(1) == m);
    CHECK(h.Output(2) == v);
  }
}

TEST_CASE("adamw out of place has the bits of adamw in place, a skipped step the old ones") {
  constexpr int64_t kN = 5000;
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Port x = FullPort({kN}, dtype), scalar = FullPort({});
    const std::vector<Values> old = {RandomValues(kN, 1), RandomValues(kN, 2),
                                     RandomValues(kN, 3, 0, 1)};
    for (const double norm : {4.0, inf}) {
      for (const bool counted : {false, true}) {
        const auto make = [&](const std::vector<int64_t>& apart) {
          AttrMap attrs = {{"decay", true}, {"counted", counted}};
          std::vector<std::vector<Port>> in = {{x}, {scalar}};
          if (counted) in.push_back({scalar});
          const auto others = static_cast<int>(in.size());
          if (!apart.empty()) attrs["apart"] = apart;
          in.insert(in.end(), apart.size(), {x});
          KernelHarness h("adamw", attrs, std::move(in), {x, x, x}, 2);
          h.run().optimizer = TestStepNumbers;
          h.SetInput(0, RandomValues(kN, 4));
          h.SetInput(1, {norm});
          if (counted) h.SetInput(2, {7});
          for (int i = 0; i < 3; ++i) h.SetOutput(i, old[i]);
          for (size_t i = 0; i < apart.size(); ++i) {
            h.SetOutput(static_cast<int>(apart[i]), RandomValues(kN, 9));
            h.SetInput(others + static_cast<int>(i), old[apart[i]]);
          }
          REQUIRE(h.Make() == absl::OkStatus());
          REQUIRE(h.Call(false, 3) == absl::OkStatus());
          return h;
        };
        const KernelHarness in_place = make({});
        if (dtype == DType::kF64) CHECK((in_place.Output(0) == old[0]) == (norm == inf));
        for (const std::vector<int64_t>& apart : std::vector<std::vector<int64_t>>{
                 {0}, {1}, {2}, {1, 2}, {2, 0}, {0, 1, 2}, {2, 1, 0}}) {
          const KernelHarness next = make(apart);
          for (int i = 0; i < 3; ++i) CHECK(next.OutputBytes(i) == in_place.OutputBytes(i));
        }
      }
    }
  }
}

TEST_CASE("sum_squares adds blocks of 4096 in order") {
  constexpr int64_t kN = 4096 * 600 + 123;  // more than one batch of blocks
  const Values g = RandomValues(kN, 3);
  KernelHarness h("sum_squares", {}, {{FullPort({kN}, DType::kF32)}}, {FullPort({})}, 2);
  h.SetInput(0, g);
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  double expected = 0;
  for (double v : g) expected += v * v;
  CHECK(h.Output(0)[0] == Approx(expected).epsilon(1e-11));
}

}  // namespace
}  // namespace oneflow
