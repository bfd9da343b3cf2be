// cap * tanh(x / cap) of one element, and its gradient. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

namespace oneflow::cuda {

struct SoftCap {
  float cap;
  __device__ float operator()(float x) const { return tanhf(x * (1.0f / cap)) * cap; }
};

// From the capped value y.
struct SoftCapGrad {
  float cap;
  __device__ float operator()(float dy, float y) const {
    const float t = y * (1.0f / cap);
    return dy * (1.0f - t * t);
  }
};

}  // namespace oneflow::cuda
