// A GPU, or a share of one, as the device of a rank: one block of its memory, one of pinned memory,
// and streams whose events form a ring.
//
// It calls cudaMalloc and cudaHostAlloc once each, for the bytes of the plan, and creates streams
// and events on request; streams allocate nothing afterwards.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "actor_runtime/device/device.h"

namespace oneflow::cuda {

// `gpu`: its number among the GPUs that the driver shows. UNAVAILABLE if there is none, an input
// error if it is below compute capability 8.0.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int gpu);

}  // namespace oneflow::cuda
