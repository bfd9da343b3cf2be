#include "training/data/token_mixture.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "actor_runtime/random/random.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "training/data/record_set.h"

namespace oneflow {
namespace {

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Chooses the part of a sample.
class Draw {
 public:
  Draw(uint64_t seed, const MixtureParts& parts) : stream_(seed, "token_mixture") {
    double end = 0;
    for (const MixturePart& part : parts) ends_.push_back(end += part.weight);
  }

  size_t operator()(int64_t step, int64_t sample) const {
    // Both share one 64-bit index, as in TokenDataset::Source.
    const auto index = static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(sample);
    const double at = stream_.Uniform(index);
    size_t part = 0;
    // The last end may be rounded to less than one.
    while (part + 1 < ends_.size() && at >= ends_[part]) ++part;
    return part;
  }

 private:
  RandomStream stream_;
  std::vector<double> ends_;  // ends of the ranges of [0, 1) that stand for the parts
};

class MixtureSampler : public TokenSource {
 public:
  MixtureSampler(std::vector<std::unique_ptr<TokenSource>> sources, Draw draw)
      : sources_(std::move(sources)), draw_(std::move(draw)) {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    CHECK(step >= 0 && step < kMost && sample >= 0 && sample < kMost);
    return sources_[draw_(step, sample)]->Sample(step, sample, tokens);
  }

 private:
  std::vector<std::unique_ptr<TokenSource>> sources_;
  Draw draw_;
};

absl::Status CheckWeight(const std::string& path, double weight, double share) {
  if (std::isfinite(weight) && weight > 0 && std::isfinite(share) && share > 0) {
    return absl::OkStatus();
  }
  return InputError(path, absl::StrCat("its weight ", weight, " is not positive and finite"),
                    "give each file a weight such as 0.7, or leave the file out");
}

absl::StatusOr<TokenSplit> SplitByKind(const TokenDataset& data, double validation,
                                       int64_t sequence) {
  if (!data.HasChats()) return SplitTokens(data, validation, sequence);
  for (const TokenDataset::FilePart& part : data.FileParts()) {
    if (validation == 0) break;
    if (part.chats != nullptr) continue;
    return InputError("--eval_fraction",
                      *part.path + " is of no chats, and other files of --data are of chats",
                      "give --eval_data instead, or weights to the files");
  }
  if (validation == 0) return TokenSplit{data, data.Part(data.size(), data.size())};
  return SplitChats(data, validation);
}

}  // namespace

absl::StatusOr<TokenMixture> TokenMixture::Make(std::vector<TokenDataset> datasets,
                                                const std::vector<double>& weights) {
  CHECK(!datasets.empty() && datasets.size() == weights.size());
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    RETURN_IF_ERROR(CheckWeight(datasets[i].path(), weights[i], 1));
    sum += weights[i];
  }
  MixtureParts parts;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string& path = datasets[i].path();
    RETURN_IF_ERROR(CheckWeight(path, weights[i], weights[i] / sum));
    RETURN_IF_ERROR(CheckOneTokenizer(datasets[0], datasets[i]));
    parts.push_back({FileName(path), datasets[i].size(), weights[i] / sum});
  }
  return TokenMixture(std::move(datasets), std::move(parts));
}

std::unique_ptr<TokenSource> TokenMixture::Source(uint64_t seed) const {
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (const TokenDataset& data : datasets_) sources.push_back(data.Source(seed));
  return Mix(seed, std::move(sources));
}

std::unique_ptr<TokenSource> TokenMixture::Mix(
    uint64_t seed, std::vector<std::unique_ptr<TokenSource>> sources) const {
  CHECK_EQ(sources.size(), datasets_.size());
  if (parts_.empty()) return std::move(sources[0]);
  return std::make_unique<MixtureSampler>(std::move(sources), Draw(seed, parts_));
}

int64_t TokenMixture::size() const {
  int64_t sum = 0;
  for (const TokenDataset& data : datasets_) sum += data.size();
  return sum;
}

TokenizerId TokenMixture::tokenizer() const {
  for (const TokenDataset& data : datasets_) {
    if (const TokenizerId id = data.tokenizer(); id.known()) return id;
  }
  return {};
}

std::vector<int64_t> TokenMixture::CountSamples(uint64_t seed, int64_t steps, int64_t batch) const {
  CHECK(!parts_.empty());
  const Draw draw(seed, parts_);
  std::vector<int64_t> counts(parts_.size());
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t sample = 0; sample < batch; ++sample) ++counts[draw(step, sample)];
  }
  return counts;
}

absl::StatusOr<MixtureSplit> TokenMixture::Split(double validation, int64_t sequence) const {
  MixtureSplit split{TokenMixture({}, parts_), TokenMixture({}, parts_)};
  for (size_t i = 0; i < datasets_.size(); ++i) {
    ASSIGN_OR_RETURN(TokenSplit parts, SplitByKind(datasets_[i], validation, sequence));
    for (const auto& [mixture, part] :
         {std::pair(&split.train, &parts.train), std::pair(&split.validation, &parts.validation)}) {
      if (!parts_.empty()) mixture->parts_[i].tokens = part->size();
      mixture->datasets_.push_back(*part);
    }
  }
  return split;
}

}  // namespace oneflow
