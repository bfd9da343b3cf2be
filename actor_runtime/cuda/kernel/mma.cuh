// Instructions that CUDA C++ does not provide: products of small bf16 matrices by a warp, loads of
// their parts, asynchronous copies from global to shared memory. All inline PTX is in this file;
// each instruction has an equivalent in C++ for the emulated GPU. They need compute capability 8.0.
//
// Every lane of a warp calls MultiplyAdd and LoadMatrices together. With g = lane / 4 and t = lane
// % 4, a lane has these words of the matrices of one product, two adjacent bf16 to a word (the
// first in the low half):
//   a[16, 16]  word 0: row g, columns 2t, 2t + 1; 1: row g + 8; 2: row g, columns 2t + 8, 2t + 9;
//              3: row g + 8, columns 2t + 8, 2t + 9
//   b[16, 8]   word 0: rows 2t, 2t + 1 of column g; 1: rows 2t + 8, 2t + 9 of it
//   c[16, 8]   0, 1: row g, columns 2t, 2t + 1; 2, 3: row g + 8
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "oneflow_core/tensor/bf16.h"

#ifdef ONEFLOW_EMULATED_GPU
#include <cstring>
#include <deque>
#include <vector>
#endif

namespace oneflow::cuda {

// c += a b, in f32.
__device__ inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

// Four matrices of 8 x 8 elements from shared memory, word i of each lane of matrix i: row lane /
// 4, columns 2 (lane % 4) and the next. Lane l gives the address of row l % 8 of matrix l / 8: 16
// bytes, 16-byte aligned.
__device__ inline void LoadMatrices(uint32_t (&words)[4], const Bf16* row);
// The same of the transposed matrices: column lane / 4, rows 2 (lane % 4) and the next.
__device__ inline void LoadTransposed(uint32_t (&words)[4], const Bf16* row);

// Copies 16 bytes to shared memory, later: zeros where not `there`. Both are 16-byte aligned.
__device__ inline void CopyLater(void* shared, const void* global, bool there);
// Ends a group of this thread's copies.
__device__ inline void EndCopies();
// Waits for this thread's groups but for the last `kBut`. Other threads see them after a barrier.
template <int kBut>
__device__ inline void WaitForCopies();

// Two numbers as a word, each rounded to nearest.
__device__ inline uint32_t PackWord(float low, float high);
// 2^x, to about 2^-22, and its inverse.
__device__ inline float FastExp2(float x);
__device__ inline float FastLog2(float x);
// To about 2^-11.
__device__ inline float FastTanh(float x);

#ifdef ONEFLOW_EMULATED_GPU

namespace twin {

inline float Half(uint32_t word, int half) {
  return ToFloat(Bf16{static_cast<uint16_t>(word >> (16 * half))});
}

struct Operands {
  uint32_t a[4], b[2];
};

struct LaterCopy {
  void* to;
  const void* from;
  bool there;

  void Run() const { there ? std::memcpy(to, from, 16) : std::memset(to, 0, 16); }
};
// By thread of the running block: its groups of copies; the last one is open.
inline std::deque<std::vector<LaterCopy>>& GroupsOfThread() {
  static std::deque<std::vector<LaterCopy>> groups[1024];
  return groups[threadIdx.x];
}

}  // namespace twin

inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  twin::Operands lanes[emulated::kLanes];
  emulated::AllLanes(twin::Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}}, lanes);
  const int g = emulated::Lane() / 4, t = emulated::Lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * t + i % 2;
    for (int k = 0; k < 16; ++k) {
      const twin::Operands& left = lanes[g * 4 + k % 8 / 2];
      const twin::Operands& right = lanes[column * 4 + k % 8 / 2];
      c[i] += twin::Half(left.a[i / 2 + k / 8 * 2], k % 2) * twin::Half(right.b[k / 8], k % 2);
    }
  }
}

inline void LoadMatrices(uint32_t (&words)[4], const Bf16* row) {
  const Bf16* rows[emulated::kLanes];
  emulated::AllLanes(row, rows);
  for (int i = 0; i < 4; ++i) {
    const Bf16* from = rows[8 * i + emulated::Lane() / 4] + emulated::Lane() % 4 * 2;
    words[i] = from[0].bits | uint32_t{from[1].bits} << 16;
  }
}

inline void LoadTransposed(uint32_t (&words)[4], const Bf16* row) {
  const Bf16* rows[emulated::kLanes];
  emulated::AllLanes(row, rows);
  for (int i = 0; i < 4; ++i) {
    const int first = 8 * i + emulated::Lane() % 4 * 2, column = emulated::Lane() / 4;
    words[i] = rows[first][column].bits | uint32_t{rows[first + 1][column].bits} << 16;
  }
}

// Half of the threads copy as late as may be, so that what is read without waiting is not there;
// the others as early, so that what is written without a barrier is gone.
inline void CopyLater(void* shared, const void* global, bool there) {
  if ((threadIdx.x ^ threadIdx.x / emulated::kLanes) % 2 == 0) {
    return twin::LaterCopy{shared, global, there}.Run();
  }
  auto& groups = twin::GroupsOfThread();
  if (groups.empty()) groups.emplace_back();
  groups.back().push_back({shared, global, there});
}
inline void EndCopies() {
  auto& groups = twin::GroupsOfThread();
  if (groups.empty()) groups.emplace_back();
  groups.emplace_back();
}
template <int kBut>
inline void WaitForCopies() {
  auto& groups = twin::GroupsOfThread();
  while (static_cast<int>(groups.size()) > kBut + 1) {
    for (const twin::LaterCopy& copy : groups.front()) copy.Run();
    groups.pop_front();
  }
}

inline uint32_t PackWord(float low, float high) {
  return ToBf16(low).bits | uint32_t{ToBf16(high).bits} << 16;
}
inline float FastExp2(float x) { return exp2f(x); }
inline float FastLog2(float x) { return log2f(x); }
inline float FastTanh(float x) { return tanhf(x); }

#else

__device__ inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void LoadMatrices(uint32_t (&words)[4], const Bf16* row) {
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

__device__ inline void LoadTransposed(uint32_t (&words)[4], const Bf16* row) {
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

__device__ inline void CopyLater(void* shared, const void* global, bool there) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = there ? 16 : 0;  // The rest of 16 becomes zeros.
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
               :
               : "r"(to), "l"(global), "r"(bytes)
               : "memory");
}
__device__ inline void EndCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kBut>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kBut) : "memory");
}

__device__ inline uint32_t PackWord(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline float FastExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float FastLog2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float FastTanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

#endif

}  // namespace oneflow::cuda
