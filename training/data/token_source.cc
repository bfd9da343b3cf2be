// TokenDataset::Source and Pass: which sequences a step reads.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "actor_runtime/random/random.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "training/data/token_dataset.h"

namespace oneflow {
namespace {

class TokenSampler : public TokenSource {
 public:
  TokenSampler(TokenDataset data, uint64_t seed)
      : data_(std::move(data)), starts_(seed, "token_source") {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    CHECK(step >= 0 && step < kMost && sample >= 0 && sample < kMost);
    const int64_t starts = data_.size() - static_cast<int64_t>(tokens.size()) + 1;
    CHECK_GE(starts, 1);
    // Both share one 64-bit index.
    const auto index = static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(sample);
    return data_.Read(static_cast<int64_t>(starts_.Below(index, starts)), tokens);
  }

 private:
  TokenDataset data_;
  RandomStream starts_;
};

class TokenPass : public TokenSource {
 public:
  TokenPass(TokenDataset data, int64_t batch) : data_(std::move(data)), batch_(batch) {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    CHECK(step >= 0 && step < kMost && sample >= 0 && sample < batch_);
    const auto length = std::ssize(tokens) - 1;
    const int64_t window = step * batch_ + sample;
    int64_t read = 0;
    if (window < data_.Windows(length)) {
      const int64_t begin = window * length;
      read = std::min<int64_t>(length + 1, data_.size() - begin);
      RETURN_IF_ERROR(data_.Read(begin, tokens.first(read)));
    }
    std::fill(tokens.begin() + read, tokens.end(), kPadding);
    return absl::OkStatus();
  }

 private:
  TokenDataset data_;
  int64_t batch_;
};

}  // namespace

std::unique_ptr<TokenSource> TokenDataset::Pass(int64_t batch) const {
  return std::make_unique<TokenPass>(*this, batch);
}

std::unique_ptr<TokenSource> TokenDataset::Source(uint64_t seed) const {
  return std::make_unique<TokenSampler>(*this, seed);
}

}  // namespace oneflow
