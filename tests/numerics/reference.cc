#include "tests/numerics/reference.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "glog/logging.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::map<std::string, NpyArray>> ReadFolder(const std::string& folder) {
  std::map<std::string, NpyArray> arrays;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    ASSIGN_OR_RETURN(arrays[entry.path().stem()], ReadNpy(entry.path()));
  }
  if (arrays.empty()) return absl::NotFoundError(folder + ": holds no arrays");
  return arrays;
}

absl::StatusOr<std::vector<double>> ReadDoubles(const std::string& path) {
  ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(path));
  const std::span<const double> values = array.as<double>();
  return std::vector<double>(values.begin(), values.end());
}

proto::Model MakeConfig(const Reference& r) {
  const Dims& qkv = r.weights.at("h.0.attn.qkv.weight").dims;  // [H,3,heads,d]
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(std::count_if(r.weights.begin(), r.weights.end(), [](const auto& entry) {
    return entry.first.ends_with(".attn.qkv.weight");
  }));
  config.set_heads(qkv[2]);
  config.set_hidden(qkv[0]);
  config.set_sequence(r.weights.at("wpe").dims[0]);
  config.set_vocab(r.weights.at("wte").dims[0]);
  config.set_bias(r.weights.count("ln_f.bias") > 0);
  return config;
}

proto::Optimizer MakeOptimizer() {
  proto::Optimizer optimizer;
  optimizer.set_learning_rate(1e-3);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip(1.0);
  return optimizer;
}

std::span<const int32_t> StepBatch(const NpyArray& ids, int step) {
  const int64_t batch = ids.dims[1] * ids.dims[2];
  return ids.as<int32_t>().subspan(step * batch, batch);
}

}  // namespace

absl::StatusOr<Reference> LoadReference(const std::string& folder) {
  Reference r;
  ASSIGN_OR_RETURN(r.weights, ReadFolder(folder + "/weights"));
  ASSIGN_OR_RETURN(r.gradients, ReadFolder(folder + "/gradients"));
  ASSIGN_OR_RETURN(r.trained, ReadFolder(folder + "/trained"));
  ASSIGN_OR_RETURN(r.tokens, ReadNpy(folder + "/tokens.npy"));
  ASSIGN_OR_RETURN(r.labels, ReadNpy(folder + "/labels.npy"));
  ASSIGN_OR_RETURN(r.logits, ReadNpy(folder + "/logits.npy"));
  ASSIGN_OR_RETURN(r.losses, ReadDoubles(folder + "/losses.npy"));
  ASSIGN_OR_RETURN(r.norms, ReadDoubles(folder + "/norms.npy"));
  r.config = MakeConfig(r);
  r.batch = r.tokens.dims[1];
  r.optimizer = MakeOptimizer();
  return r;
}

std::span<const int32_t> Reference::StepTokens(int step) const { return StepBatch(tokens, step); }
std::span<const int32_t> Reference::StepLabels(int step) const { return StepBatch(labels, step); }

double Reference::StepBound() const {
  const proto::Optimizer& o = optimizer;
  // No step is larger than rate * (1 - beta1) / sqrt(1 - beta2), nor than the rate times a few.
  return steps() * o.learning_rate() * std::max(1.0, (1 - o.beta1()) / std::sqrt(1 - o.beta2()));
}

Difference Compare(std::span<const float> actual, std::span<const float> expected) {
  CHECK_EQ(actual.size(), expected.size());
  Difference difference;
  double error = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double d = std::abs(double{actual[i]} - double{expected[i]});
    difference.absolute = std::max(difference.absolute, d);
    error += d * d;
    norm += double{expected[i]} * expected[i];
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (std::isnan(error) || std::isnan(norm)) return {kInfinity, kInfinity};
  difference.relative = error == 0 ? 0 : std::sqrt(error) / std::sqrt(norm);
  return difference;
}

}  // namespace oneflow
