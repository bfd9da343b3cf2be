// The middle of a gated MLP, of one element: act(gate) * up. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

#include "actor_runtime/cuda/kernel/gelu.cuh"

namespace oneflow::cuda {

// x * sigmoid(x).
struct Silu {
  static __device__ float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
  __device__ float operator()(float x) const { return x * Sigmoid(x); }
  static __device__ Activated WithSlope(float x) {
    const float s = Sigmoid(x);
    return {x * s, s + x * s * (1.0f - s)};
  }
};

// A is Silu or Gelu.
template <typename A>
struct Gated {
  __device__ float operator()(float gate, float up) const { return A()(gate) * up; }
};

// Its gradients by the gate and by what is gated.
struct GatedGradient {
  float gate, up;
};
template <typename A>
__device__ inline GatedGradient GatedGrad(float dy, float gate, float up) {
  const Activated a = A::WithSlope(gate);
  return {dy * up * a.slope, dy * a.value};
}

}  // namespace oneflow::cuda
