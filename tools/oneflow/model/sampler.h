// Draws the next token from its logits.
//
//   1. temperature t > 0 divides the logits; t = 0 takes the largest logit (the lowest id of
//      equals) and looks at nothing else.
//   2. top_k > 0 keeps the k largest logits (of equals those of lower ids); 0 keeps all.
//   3. top_p < 1 keeps of these, in order of falling probability (softmax over those kept), the
//      fewest that add up to at least p; 1 keeps all.
//   4. One of the kept is drawn by its probability among them, with number `position` of the seed's
//      stream. So a token is a function of (logits, options, position): a text does not depend on
//      the sizes of its requests.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace oneflow {

struct SamplingOptions {
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 1;
};

// Refuses a negative temperature or top_k and a top_p outside of (0, 1], by the flag's name.
absl::Status CheckSampling(const SamplingOptions& options);

// The token at `position` of the text. Requires logits, and CheckSampling(options).ok().
int32_t SampleToken(std::span<const float> logits, const SamplingOptions& options,
                    int64_t position);

}  // namespace oneflow
