#include <algorithm>
#include <cmath>

#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/dropout.h"
#include "actor_runtime/kernel/run_context.h"
#include "actor_runtime/random/random.h"

namespace oneflow {

DropoutMask::DropoutMask(const KernelSetup& setup, std::string_view rate, int64_t elements)
    : rate_(DoubleAttr(setup, rate)),
      mask_(StringAttr(setup, "mask", setup.name)),
      elements_(elements) {}

DropoutNumbers DropoutMask::Numbers(const KernelCall& call) const {
  const int64_t step = FindMicroBatch(*call.run, call.firing).step;
  // Part 0 of a name is not a step's: it belongs to a variable's initial values.
  const RandomStream stream(call.run->seed, mask_, static_cast<uint64_t>(step) + 1);
  const double below = std::min(std::round(rate_ * 0x1p32), 0x1p32 - 1);
  return {stream.key(), stream.stream(), static_cast<uint32_t>(below), 1 / (1 - rate_)};
}

uint64_t DropoutMask::First(const KernelCall& call) const {
  return static_cast<uint64_t>(FindMicroBatch(*call.run, call.firing).index * elements_);
}

}  // namespace oneflow
