#include "actor_runtime/device/cuda/scale_add.h"

namespace oneflow {

absl::Status CudaScaleAdd(float a, std::span<const float> x, std::span<float> y) {
  return absl::UnimplementedError("built without CUDA: build with --config=cuda");
}

}  // namespace oneflow
