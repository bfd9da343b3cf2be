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

// A is Silu, Gelu, or ClampedSilu, which is no function of the gate alone.
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

// (up + 1) * gate * sigmoid(1.702 gate), of a gate of at most 7 and an up of -7 to 7: gpt-oss. At a
// limit and beyond it there is no gradient, as in torch.clamp.
struct ClampedSilu {
  static constexpr float kLimit = 7.0f, kAlpha = 1.702f;
};

template <>
struct Gated<ClampedSilu> {
  __device__ float operator()(float gate, float up) const {
    const float g = gate > ClampedSilu::kLimit ? ClampedSilu::kLimit : gate;
    return (Clamp(up) + 1.0f) * (g * Silu::Sigmoid(ClampedSilu::kAlpha * g));
  }
  static __device__ float Clamp(float x) {
    constexpr float kLimit = ClampedSilu::kLimit;
    return x > kLimit ? kLimit : (x < -kLimit ? -kLimit : x);
  }
};

template <>
__device__ inline GatedGradient GatedGrad<ClampedSilu>(float dy, float gate, float up) {
  constexpr float kLimit = ClampedSilu::kLimit;
  const bool above = gate >= kLimit, inside = up > -kLimit && up < kLimit;
  const float g = above ? kLimit : gate, u = Gated<ClampedSilu>::Clamp(up);
  const float s = Silu::Sigmoid(ClampedSilu::kAlpha * g);
  const float slope = s + ClampedSilu::kAlpha * g * s * (1.0f - s);
  return {above ? 0.0f : dy * (u + 1.0f) * slope, inside ? dy * (g * s) : 0.0f};
}

}  // namespace oneflow::cuda
