// Options of a runtime whose workers take turns on one thread, in an order drawn from a seed: the
// stream that fires next, the mail that arrives. The same seed gives the same order. In any order,
// a proved plan must end drained with the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "actor_runtime/exec/runtime.h"

namespace oneflow {

inline RuntimeOptions Interleaved(uint64_t seed, RuntimeOptions options = {}) {
  const auto random = std::make_shared<std::mt19937_64>(seed);
  options.draw_worker = options.draw_thing = [random](int n) {
    return static_cast<int>((*random)() % static_cast<uint64_t>(n));
  };
  return options;
}

// Kernels that do nothing, for runs of tokens alone.
inline absl::StatusOr<Kernel> MakeIdleKernel(const KernelSetup&) {
  return Kernel([](const KernelCall&) { return absl::OkStatus(); });
}

}  // namespace oneflow
