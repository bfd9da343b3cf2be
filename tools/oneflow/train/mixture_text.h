// What is said of data that are a mixture: the shares that were asked for, and those of a run.
#pragma once

#include <cstdint>
#include <string>

#include "training/data/token_mixture.h"

namespace oneflow {

// "data: a.bin 70.0 %, b.bin 30.0 %": the weights. Requires data.parts() that are not empty.
std::string MixtureText(const TokenMixture& data);
// The shares of the samples of `steps` steps, counted by the function that draws them.
std::string SharesText(const TokenMixture& data, uint64_t seed, int64_t steps, int64_t batch);

}  // namespace oneflow
