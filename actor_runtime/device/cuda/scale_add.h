// The smallest CUDA kernel: proves that toolkit, driver and build fit together.
#pragma once

#include <span>

#include "absl/status/status.h"

namespace oneflow {

// y = a * x + y on the first CUDA device, from and to host memory. Unavailable without a device;
// Unimplemented in a build without --config=cuda.
absl::Status CudaScaleAdd(float a, std::span<const float> x, std::span<float> y);

}  // namespace oneflow
