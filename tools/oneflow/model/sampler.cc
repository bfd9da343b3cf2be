#include "tools/oneflow/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor_runtime/random/random.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

struct Candidate {
  int32_t id;
  double weight;  // a logit, then a probability up to a factor
};

bool Likelier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

bool LowerId(const Candidate& a, const Candidate& b) { return a.id < b.id; }

double SumWeights(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  return total;
}

void KeepTopK(int64_t k, std::vector<Candidate>* candidates) {
  if (k <= 0 || k >= static_cast<int64_t>(candidates->size())) return;
  std::nth_element(candidates->begin(), candidates->begin() + k, candidates->end(), Likelier);
  candidates->resize(k);
  std::sort(candidates->begin(), candidates->end(), LowerId);
}

void KeepTopP(double p, std::vector<Candidate>* candidates) {
  if (p >= 1) return;
  const double enough = p * SumWeights(*candidates);
  std::sort(candidates->begin(), candidates->end(), Likelier);
  size_t kept = 0;
  for (double sum = 0; kept < candidates->size() && sum < enough; ++kept) {
    sum += (*candidates)[kept].weight;
  }
  candidates->resize(std::max<size_t>(1, kept));
  std::sort(candidates->begin(), candidates->end(), LowerId);
}

}  // namespace

absl::Status CheckSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return InputError(absl::StrCat("--temperature=", options.temperature),
                      "must be a number that is not negative", "use 0 for the most likely token");
  }
  if (options.top_k < 0) {
    return InputError("--top_k=" + std::to_string(options.top_k), "must not be negative",
                      "use 0 to keep all tokens");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return InputError(absl::StrCat("--top_p=", options.top_p), "must be above 0 and at most 1",
                      "use 1 to keep all tokens");
  }
  return absl::OkStatus();
}

int32_t SampleToken(std::span<const float> logits, const SamplingOptions& options,
                    int64_t position) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return static_cast<int32_t>(largest - logits.begin());
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates.push_back({static_cast<int32_t>(i), logits[i]});
  }
  KeepTopK(options.top_k, &candidates);
  for (Candidate& c : candidates) c.weight = std::exp((c.weight - *largest) / options.temperature);
  KeepTopP(options.top_p, &candidates);
  const RandomStream random(options.seed, "generate");
  double left = random.Uniform(static_cast<uint64_t>(position)) * SumWeights(candidates);
  for (const Candidate& c : candidates) {
    left -= c.weight;
    if (left < 0) return c.id;
  }
  return candidates.back().id;
}

}  // namespace oneflow
