// TokenDataset::Source: which sequences a step reads.
#include <memory>
#include <utility>

#include "actor_runtime/data/token_dataset.h"
#include "actor_runtime/random/random.h"
#include "glog/logging.h"

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

}  // namespace

std::unique_ptr<TokenSource> TokenDataset::Source(uint64_t seed) const {
  return std::make_unique<TokenSampler>(*this, seed);
}

}  // namespace oneflow
