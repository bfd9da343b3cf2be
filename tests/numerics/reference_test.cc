// The reference against itself and against what the definitions say, computed here in plain loops.
#include "tests/numerics/reference.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace oneflow {
namespace {

const std::string kFolders[] = {"tests/numerics/bias", "tests/numerics/no_bias"};

double MeanCrossEntropy(const NpyArray& logits, std::span<const int32_t> labels) {
  const int64_t vocab = logits.dims.back();
  double loss = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const auto x = logits.as<float>().subspan(row * vocab, vocab);
    double sum = 0;
    for (float v : x) sum += std::exp(double{v});
    loss += (std::log(sum) - x[labels[row]]) / labels.size();
  }
  return loss;
}

TEST_CASE("Reference: the model's variables, all of them") {
  for (const std::string& folder : kFolders) {
    const Reference r = *LoadReference(folder);
    CHECK(CompleteModel(r.config).ok());
    CHECK(r.config.layers() == 2);
    CHECK(r.config.bias() == (folder == kFolders[0]));
    size_t variables = 0;
    const proto::Graph graph = BuildModel(r.config);
    for (const proto::Op& op : graph.op()) {
      if (op.kind() != "variable") continue;
      ++variables;
      Dims dims;
      for (const auto& dim : op.shape().dim()) dims.push_back(dim.size());
      INFO(op.name());
      REQUIRE(r.weights.count(op.name()) == 1);
      CHECK(r.weights.at(op.name()).dims == dims);
      CHECK(r.gradients.at(op.name()).dims == dims);
      CHECK(r.trained.at(op.name()).dims == dims);
    }
    CHECK(variables == r.weights.size());
    CHECK(r.tokens.dims == Dims{10, 4, 16});
    CHECK(r.labels.dims == r.tokens.dims);
    CHECK(r.logits.dims == Dims{4, 16, 64});
    CHECK(r.steps() == 10);
    CHECK(r.norms.size() == 10);
  }
}

TEST_CASE("Reference: labels are the next tokens") {
  const Reference r = *LoadReference(kFolders[0]);
  for (int step = 0; step < r.steps(); ++step) {
    for (int row = 0; row < 4; ++row) {
      const auto tokens = r.StepTokens(step).subspan(row * 16, 16);
      const auto labels = r.StepLabels(step).subspan(row * 16, 16);
      CHECK(std::equal(tokens.begin() + 1, tokens.end(), labels.begin()));
    }
  }
}

TEST_CASE("Reference: loss, norm and first steps follow from the definitions") {
  for (const std::string& folder : kFolders) {
    const Reference r = *LoadReference(folder);
    CHECK(MeanCrossEntropy(r.logits, r.StepLabels(0)) == Approx(r.losses[0]).epsilon(1e-6));
    double squares = 0;
    for (const auto& [name, gradient] : r.gradients) {
      for (float g : gradient.as<float>()) squares += double{g} * g;
    }
    CHECK(std::sqrt(squares) == Approx(r.norms[0]).epsilon(1e-6));
    // Each of the 10 updates is at most a few learning rates, and training does move every
    // variable.
    for (const auto& [name, trained] : r.trained) {
      const Difference d = Compare(trained.as<float>(), r.weights.at(name).as<float>());
      INFO(name);
      CHECK(d.absolute > 1e-4);
      CHECK(d.absolute < 2 * r.StepBound());
    }
    CHECK(r.losses.back() < r.losses.front());
  }
}

TEST_CASE("Reference: the key bias has no gradient") {
  const Reference r = *LoadReference(kFolders[0]);
  const auto gradient = r.gradients.at("h.0.attn.qkv.bias").as<float>();
  for (int i = 0; i < 32; ++i) {
    CHECK(std::abs(gradient[32 + i]) < 1e-12);
    CHECK(std::abs(gradient[64 + i]) > 1e-12);
  }
}

TEST_CASE("Compare") {
  const std::vector<float> a = {3, 4}, b = {3, 5}, nan = {3, NAN};
  CHECK(Compare(a, a).absolute == 0);
  CHECK(Compare(a, a).relative == 0);
  CHECK(Compare(b, a).absolute == 1);
  CHECK(Compare(b, a).relative == Approx(0.2));
  CHECK(std::isinf(Compare(nan, a).absolute));
  CHECK(std::isinf(Compare(nan, a).relative));
}

TEST_CASE("LoadReference: a folder that is none") {
  CHECK_FALSE(LoadReference("tests/numerics/no").ok());
}

}  // namespace
}  // namespace oneflow
