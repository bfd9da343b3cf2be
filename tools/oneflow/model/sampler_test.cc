#include "tools/oneflow/model/sampler.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace oneflow {
namespace {

// Probabilities 0.4, 0.1, 0.3, 0.2.
const std::vector<float> kLogits = {std::log(4.0F), std::log(1.0F), std::log(3.0F), std::log(2.0F)};

std::set<int32_t> Drawn(const SamplingOptions& options,
                        const std::vector<float>& logits = kLogits) {
  std::set<int32_t> drawn;
  for (int64_t position = 0; position < 500; ++position) {
    drawn.insert(SampleToken(logits, options, position));
  }
  return drawn;
}

}  // namespace

TEST_CASE("temperature 0 takes the largest logit, the first of equals") {
  CHECK(SampleToken(kLogits, {.temperature = 0}, 7) == 0);
  CHECK(SampleToken(std::vector<float>{1, 3, 3, 2}, {.temperature = 0}, 7) == 1);
}

TEST_CASE("tokens are drawn by their probabilities") {
  std::map<int32_t, int> count;
  constexpr int kDraws = 20000;
  for (int64_t position = 0; position < kDraws; ++position) {
    ++count[SampleToken(kLogits, {}, position)];
  }
  const std::vector<double> expected = {0.4, 0.1, 0.3, 0.2};
  for (int32_t id = 0; id < 4; ++id) {
    CHECK(count[id] / double{kDraws} == Approx(expected[id]).margin(0.015));
  }
}

TEST_CASE("a draw is a function of seed and position") {
  std::set<std::vector<int32_t>> texts;
  for (const uint64_t seed : {1, 2}) {
    for (int again = 0; again < 2; ++again) {
      std::vector<int32_t> text;
      for (int64_t position = 0; position < 40; ++position) {
        text.push_back(SampleToken(kLogits, {.seed = seed}, position));
      }
      texts.insert(text);
    }
  }
  CHECK(texts.size() == 2);
}

TEST_CASE("a low temperature sharpens, a high one flattens") {
  CHECK(Drawn({.temperature = 0.01}) == std::set<int32_t>{0});
  CHECK(Drawn({.temperature = 100}).size() == 4);
}

TEST_CASE("top_k keeps the k largest, of equals the lower ids") {
  CHECK(Drawn({.top_k = 1}) == std::set<int32_t>{0});
  CHECK(Drawn({.top_k = 2}) == std::set<int32_t>{0, 2});
  CHECK(Drawn({.top_k = 9}).size() == 4);
  CHECK(Drawn({.top_k = 2}, {1, 1, 1, 1}) == std::set<int32_t>{0, 1});
}

TEST_CASE("top_p keeps the fewest that add up to p") {
  CHECK(Drawn({.top_p = 1e-9}) == std::set<int32_t>{0});
  CHECK(Drawn({.top_p = 0.39}) == std::set<int32_t>{0});
  CHECK(Drawn({.top_p = 0.41}) == std::set<int32_t>{0, 2});
  CHECK(Drawn({.top_p = 0.71}) == std::set<int32_t>{0, 2, 3});
  // The probabilities after top_k: 4/7 and 3/7.
  CHECK(Drawn({.top_k = 2, .top_p = 0.56}) == std::set<int32_t>{0});
  CHECK(Drawn({.top_k = 2, .top_p = 0.58}) == std::set<int32_t>{0, 2});
}

TEST_CASE("numbers out of range are refused by their flag") {
  const auto refused = [](const SamplingOptions& options) {
    return std::string(CheckSampling(options).message());
  };
  CHECK(CheckSampling({}).ok());
  CHECK_THAT(refused({.temperature = -1}), Catch::Contains("--temperature"));
  CHECK_THAT(refused({.temperature = NAN}), Catch::Contains("--temperature"));
  CHECK_THAT(refused({.top_k = -1}), Catch::Contains("--top_k"));
  CHECK_THAT(refused({.top_p = 0}), Catch::Contains("--top_p"));
  CHECK_THAT(refused({.top_p = 1.5}), Catch::Contains("--top_p"));
}

}  // namespace oneflow
