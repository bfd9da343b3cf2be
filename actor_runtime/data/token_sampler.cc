#include "actor_runtime/data/token_sampler.h"

#include <utility>

#include "glog/logging.h"

namespace oneflow {

TokenSampler::TokenSampler(TokenDataset data, uint64_t seed)
    : data_(std::move(data)), starts_(seed, "token_sampler") {}

void TokenSampler::Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const {
  CHECK(step >= 0 && step < int64_t{1} << 32 && sample >= 0 && sample < int64_t{1} << 32);
  const int64_t starts = data_.size() - static_cast<int64_t>(tokens.size()) + 1;
  CHECK_GE(starts, 1);
  const uint64_t index = static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(sample);
  data_.Read(static_cast<int64_t>(starts_.Below(index, starts)), tokens);
}

}  // namespace oneflow
