// For tests of the emulated runtime: shorter calls, and two kernels.
#pragma once

#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/emulated/launch.h"

namespace oneflow::emulated {

inline constexpr auto kToDevice = cudaMemcpyHostToDevice;
inline constexpr auto kToHost = cudaMemcpyDeviceToHost;

inline void Good(cudaError_t error) {
  INFO(cudaGetErrorName(error));
  REQUIRE(error == cudaSuccess);
}

// The machine of most tests.
inline Options Machine(Model model, uint64_t seed) {
  return {.devices = 2, .model = model, .seed = seed, .guard_memory = true};
}

template <typename T = int>
T* OnDevice(size_t count) {
  T* memory = nullptr;
  Good(cudaMalloc(&memory, count * sizeof(T)));
  return memory;
}
inline int* Pinned(size_t count) {
  int* memory = nullptr;
  Good(cudaHostAlloc(&memory, count * sizeof(int), cudaHostAllocDefault));
  return memory;
}
inline cudaStream_t NewStream() {
  cudaStream_t stream;
  Good(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
inline cudaEvent_t NewEvent(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event;
  Good(cudaEventCreateWithFlags(&event, flags));
  return event;
}

// *at = value, and *at = 2 * *at + 1, as kernels.
inline cudaError_t Set(int* at, int value, cudaStream_t stream) {
  return Launch("set", {1, 32}, stream, [=] {
    if (threadIdx.x == 0) *at = value;
  });
}
inline cudaError_t Twice(int* at, cudaStream_t stream) {
  return Launch("step", {1, 32}, stream, [=] {
    if (threadIdx.x == 0) *at = 2 * *at + 1;
  });
}

}  // namespace oneflow::emulated
