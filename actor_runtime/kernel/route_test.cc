// Routing: queues against a plain loop, and the gradients of its two losses against differences.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_test_util.h"
#include "oneflow_core/op/route_dims.h"

namespace oneflow {
namespace {

struct Routed {
  Values w, ids, slots, offsets;
};

Routed Route(const Values& logits, int64_t batch, int64_t sequence, const RouteDims& d,
             AttrMap attrs, const Values& bias = {}, DType dtype = DType::kF64) {
  attrs["choices"] = d.choices;
  attrs["groups"] = d.groups;
  attrs["run"] = d.run;
  const Dims chosen = {batch, sequence, d.choices};
  std::vector<std::vector<Port>> in = {{FullPort({batch, sequence, d.experts}, dtype)}};
  if (!bias.empty()) in.push_back({FullPort({d.experts}, dtype)});
  KernelHarness h(
      "route", attrs, in,
      {FullPort(chosen, dtype), FullPort(chosen, DType::kI32), FullPort(chosen, DType::kI32),
       FullPort({d.groups, batch, sequence / d.run, d.of_group() + 1}, DType::kI32)});
  h.SetInput(0, logits);
  if (!bias.empty()) h.SetInput(1, bias);
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  return {h.Output(0), h.Output(1), h.Output(2), h.Output(3)};
}

TEST_CASE("queues are sorted by expert, then by position and choice, and end at the capacity") {
  constexpr int64_t kBatch = 2, kSequence = 12;
  for (const double capacity : {0.0, 0.5, 1.25}) {
    for (const int64_t groups : {1, 2, 6}) {
      const RouteDims d = MakeRouteDims(6, groups, 3, 4, kSequence, capacity);
      AttrMap attrs;
      if (capacity > 0) attrs["capacity"] = capacity;
      const Values logits = RandomValues(kBatch * kSequence * d.experts, 3);
      const Routed r = Route(logits, kBatch, kSequence, d, attrs);
      const int64_t runs = kBatch * kSequence / d.run, of_run = d.run * d.choices;
      for (int64_t run = 0; run < runs; ++run) {
        for (int64_t g = 0; g < groups; ++g) {
          int64_t at = 0;
          for (int64_t e = 0; e < d.of_group(); ++e) {
            const int64_t queue = (g * runs + run) * (d.of_group() + 1);
            CHECK(r.offsets[queue + e] == std::min(at, d.slots));
            for (int64_t i = run * of_run; i < (run + 1) * of_run; ++i) {
              if (r.ids[i] != static_cast<double>(g * d.of_group() + e)) continue;
              CHECK(r.slots[i] == static_cast<double>(at < d.slots ? at : -1));
              ++at;
            }
            CHECK(r.offsets[queue + e + 1] == std::min(at, d.slots));
          }
          if (capacity == 0) CHECK(at <= d.slots);
        }
      }
      for (int64_t token = 0; token < kBatch * kSequence; ++token) {
        const double* l = &logits[token * d.experts];
        for (int64_t j = 0; j < d.choices; ++j) {
          const auto id = static_cast<int64_t>(r.ids[token * d.choices + j]);
          const auto better = std::count_if(l, l + d.experts, [&](double x) { return x > l[id]; });
          CHECK(better == j);
        }
      }
    }
  }
}

TEST_CASE(
    "of equal logits the lower experts come first, and each is chosen once, whatever they are") {
  const RouteDims d = MakeRouteDims(4, 1, 3, 0, 1, 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(Route({0, 0, 0, 0}, 1, 1, d, {}).ids == Values{0, 1, 2});
  CHECK(Route({nan, nan, nan, nan}, 1, 1, d, {}).ids == Values{0, 1, 2});
  CHECK(Route({nan, -1, 5, nan}, 1, 1, d, {}).ids == Values{2, 1, 0});
  CHECK(Route({-infinity, nan, infinity, 1}, 1, 1, d, {}).ids == Values{2, 3, 0});
}

// As gpt-oss has it: first the choice, then a softmax over the logits of the chosen.
TEST_CASE("weights by a softmax, divided by their sum, are the softmax of the logits chosen") {
  constexpr int64_t kTokens = 50;
  const RouteDims d = MakeRouteDims(32, 1, 4, 0, kTokens, 0);
  const Values logits = RandomValues(kTokens * d.experts, 7, -8, 8);
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::kF64, 1e-14), std::pair(DType::kF32, 2e-6)}) {
    const Routed r = Route(logits, 1, kTokens, d, {{"normalized", true}}, {}, dtype);
    for (int64_t token = 0; token < kTokens; ++token) {
      const auto exponential = [&](int64_t j) {
        return std::exp(logits[token * d.experts + static_cast<int64_t>(r.ids[token * 4 + j])]);
      };
      const double sum = exponential(0) + exponential(1) + exponential(2) + exponential(3);
      for (int64_t j = 0; j < d.choices; ++j) {
        CHECK(std::abs(r.w[token * 4 + j] - exponential(j) / sum) < tolerance);
      }
    }
  }
}

// As DeepSeek-V3 and GLM 4.5 have it. The numbers are those of a few lines of Python:
//   s = sigmoid(logits); ids = the 3 largest of s + bias; w = 2.5 * s[ids] / (sum(s[ids]) + 1e-20)
TEST_CASE("sigmoids choose with a bias, and count without it, divided by their sum and scaled") {
  const RouteDims d = MakeRouteDims(6, 1, 3, 0, 2, 0);
  const AttrMap attrs = {{"scores", std::string("sigmoid")}, {"normalized", true}, {"scale", 2.5}};
  const Values logits = {.5, -1.25, 2, .75, -.5, 1.5, -2, .25, -.75, 1, 3, -1.5};
  const Routed r = Route(logits, 1, 2, d, attrs, {.25, .5, -.375, 0, .125, -.25});
  CHECK(r.ids == Values{0, 1, 3, 4, 1, 3});
  const Values expected = {1.020868177052026,  0.3652407046623591, 1.113891118285615,
                           1.0603907537359256, 0.625806167437549,  0.8138030788265255};
  CHECK(Distance(r.w, expected) < 1e-14);
  // Where all of them are 0, so are the weights.
  CHECK(Route(Values(12, -1000), 1, 2, d, attrs, {}, DType::kF32).w == Values(6, 0));
}

// The losses that route.cc of the ops defines, of all runs; choices are constants.
double Losses(const Values& logits, const Values& ids, const RouteDims& d, bool sigmoid,
              double balance, double z) {
  const auto tokens = static_cast<int64_t>(logits.size()) / d.experts;
  double sum = 0;
  for (int64_t run = 0; run < tokens / d.run; ++run) {
    std::vector<double> counts(d.experts), shares(d.experts);
    double squares = 0;
    for (int64_t t = run * d.run; t < (run + 1) * d.run; ++t) {
      for (int64_t j = 0; j < d.choices; ++j) {
        ++counts[static_cast<int64_t>(ids[t * d.choices + j])];
      }
      double exps = 0, scores = 0;
      const auto score = [&](int64_t e) {
        const double x = logits[t * d.experts + e];
        return sigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x);
      };
      for (int64_t e = 0; e < d.experts; ++e) {
        exps += std::exp(logits[t * d.experts + e]), scores += score(e);
      }
      for (int64_t e = 0; e < d.experts; ++e) shares[e] += score(e) / scores;
      squares += std::log(exps) * std::log(exps);
    }
    const auto n = static_cast<double>(d.run);
    for (int64_t e = 0; e < d.experts; ++e) {
      sum += balance * static_cast<double>(d.experts) * counts[e] * shares[e] /
             (static_cast<double>(d.choices) * n * n);
    }
    sum += z * squares / n;
  }
  return sum;
}

TEST_CASE("the losses of a router have the gradients that differences give") {
  constexpr int64_t kBatch = 2, kSequence = 6;
  const RouteDims d = MakeRouteDims(5, 1, 2, 3, kSequence, 0);
  const Dims chosen = {kBatch, kSequence, d.choices}, all = {kBatch, kSequence, d.experts};
  for (const bool sigmoid : {false, true}) {
    AttrMap attrs = {
        {"normalized", true}, {"run", d.run}, {"balance", 0.5}, {"z", 0.25}, {"loss_scale", 3.0}};
    if (sigmoid) attrs["scores"] = std::string("sigmoid");
    Values logits = RandomValues(Product(all), 5, -3, 3);
    const Values ids = Route(logits, kBatch, kSequence, d, {}).ids;
    KernelHarness h("route_grad", attrs,
                    {{FullPort(all, DType::kF64)},
                     {FullPort(chosen, DType::kI32)},
                     {FullPort(chosen, DType::kF64)}},
                    {FullPort(all, DType::kF64)});
    h.SetInput(0, logits);
    h.SetInput(1, ids);
    h.SetInput(2, Values(Product(chosen), 0.0));
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    for (size_t i = 0; i < logits.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double at = logits[i];
      logits[i] = at + kStep;
      const double up = Losses(logits, ids, d, sigmoid, 0.5, 0.25);
      logits[i] = at - kStep;
      const double down = Losses(logits, ids, d, sigmoid, 0.5, 0.25);
      logits[i] = at;
      CHECK(h.Output(0)[i] == Approx(3 * (up - down) / (2 * kStep)).epsilon(1e-6).margin(1e-8));
    }
  }
}

}  // namespace
}  // namespace oneflow
