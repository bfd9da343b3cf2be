// The parts of device code that C++ lacks: thread indices, a block's shared memory and operations
// of several threads. A thread is a fiber (fiber.h); all of them run on one thread of the host.
//
// A __shared__ array in an inline function that other sources see does not compile (it is two kinds
// of variable at once): make the function static, or a template.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// One block runs at a time, so one copy is enough. Before each block the section is filled with
// NaNs. g++ leaves arrays of templates out of the section: these keep the values of the block
// before. AddressSanitizer guards the ends of arrays, but not of those in a section.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static __attribute__((section("emulated_gpu_shared")))
#endif

#define ONEFLOW_EMULATED_VECTORS(T, name, align2, align4)            \
  struct alignas(align2) name##2 {                                   \
    T x, y;                                                          \
  };                                                                 \
  struct name##3 {                                                   \
    T x, y, z;                                                       \
  };                                                                 \
  struct alignas(align4) name##4 {                                   \
    T x, y, z, w;                                                    \
  };                                                                 \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
ONEFLOW_EMULATED_VECTORS(unsigned char, uchar, 2, 4)
ONEFLOW_EMULATED_VECTORS(unsigned short, ushort, 4, 8)
ONEFLOW_EMULATED_VECTORS(int, int, 8, 16)
ONEFLOW_EMULATED_VECTORS(unsigned, uint, 8, 16)
ONEFLOW_EMULATED_VECTORS(long long, longlong, 16, 16)
ONEFLOW_EMULATED_VECTORS(float, float, 8, 16)
ONEFLOW_EMULATED_VECTORS(double, double, 16, 16)
#undef ONEFLOW_EMULATED_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// These belong to the running thread. They are not const, because another thread's values replace
// them.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// Tests identify barriers by file and line (grid.h, Barrier).
void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE());
void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                int line = __builtin_LINE());

namespace oneflow::emulated {

inline constexpr int kLanes = 32;
inline constexpr size_t kMostLaneBytes = 64;

// Every lane of the warp calls it with its value, of `bytes`. Writes the values of lanes first ..
// first + count - 1 to `results`.
void ExchangeInWarp(const void* value, size_t bytes, int first, int count, void* results,
                    unsigned mask, const char* what);

// Lane of the running thread in its warp.
int Lane();

// The values of all lanes of the warp, values[i] of lane i: for instructions of a full warp.
template <typename T>
void AllLanes(const T& value, T (&values)[kLanes]) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMostLaneBytes);
  ExchangeInWarp(&value, sizeof(T), 0, kLanes, values, 0xffffffffu, "AllLanes");
}

// The value of lane `from` of the warp.
template <typename T>
T FromLane(unsigned mask, const T& value, int from, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMostLaneBytes);
  T result;
  ExchangeInWarp(&value, sizeof(T), from, 1, &result, mask, what);
  return result;
}

}  // namespace oneflow::emulated

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int first = oneflow::emulated::Lane() / width * width;
  return oneflow::emulated::FromLane(mask, value, first + (lane & (width - 1)), "__shfl_sync");
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const int me = oneflow::emulated::Lane(), from = me ^ bits;
  // A lane of a later part of the warp does not answer.
  const int end = (me / width + 1) * width;
  return oneflow::emulated::FromLane(mask, value, from < end ? from : me, "__shfl_xor_sync");
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const int me = oneflow::emulated::Lane(), from = me + static_cast<int>(distance);
  const int end = (me / width + 1) * width;
  return oneflow::emulated::FromLane(mask, value, from < end ? from : me, "__shfl_down_sync");
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const int me = oneflow::emulated::Lane(), from = me - static_cast<int>(distance);
  const int first = me / width * width;
  return oneflow::emulated::FromLane(mask, value, from >= first ? from : me, "__shfl_up_sync");
}

unsigned __ballot_sync(unsigned mask, int predicate);
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == 0xffffffffu;
}

// Only for integers: sums of floating-point numbers would depend on the order of threads.
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
