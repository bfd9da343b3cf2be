// A GPU, or a share of one, as the device of a rank: one block of its memory, one of pinned memory,
// streams whose events are a ring.
//
// Between its making and its end it calls cudaMalloc and cudaHostAlloc once each for what the plan
// says, and creates streams and events as they are asked for; streams allocate nothing afterwards.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"

namespace oneflow::cuda {

// `gpu`: its number among those that the driver shows. UNAVAILABLE where there is none, an input
// error where it is below compute capability 8.0.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int gpu);

}  // namespace oneflow::cuda
