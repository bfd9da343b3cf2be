// Gelu and its gradient, of one element. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

namespace oneflow::cuda {

// The tanh form, as x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the same value, and
// without tanh's loss of digits where it nears -1.
inline constexpr float kTwoU = 1.5957691216057307117597842397375f;  // 2 sqrt(2/pi)
inline constexpr float kCube = 0.044715f;

__device__ inline float GeluSigmoid(float x) {
  return 1.0f / (1.0f + expf(-kTwoU * x * (x * x * kCube + 1.0f)));
}

// An activation, and its slope.
struct Activated {
  float value, slope;
};

struct Gelu {
  __device__ float operator()(float x) const { return x * GeluSigmoid(x); }
  static __device__ Activated WithSlope(float x) {
    const float s = GeluSigmoid(x);
    const float inner = (x * x * (3.0f * kCube) + 1.0f) * kTwoU;
    return {x * s, s + x * inner * s * (1.0f - s)};
  }
};
struct GeluGrad {
  __device__ float operator()(float dy, float x) const { return dy * Gelu::WithSlope(x).slope; }
};

}  // namespace oneflow::cuda
