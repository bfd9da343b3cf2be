// TokenSampler: draws the sequences of every step from a dataset, with replacement.
//
// Sample s of step t starts at a position that is uniform over all starts that leave room for the
// sequence, and is a function of (seed, t, s) alone: it does not depend on what was drawn before,
// on the mesh, on micro-batches or on the number of workers. So a resumed run goes on with exactly the
// data that an uninterrupted one would have read.
//
// Not an epoch: within one pass some sequences come twice and some never.
#pragma once

#include <cstdint>
#include <span>

#include "actor_runtime/data/token_dataset.h"
#include "actor_runtime/exec/run_context.h"
#include "actor_runtime/random/random.h"

namespace oneflow {

class TokenSampler : public TokenSource {
 public:
  TokenSampler(TokenDataset data, uint64_t seed);

  // Requires 0 <= step, sample < 2^32 and tokens.size() <= the dataset's size.
  void Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override;

 private:
  TokenDataset data_;
  RandomStream starts_;
};

}  // namespace oneflow
