// Matrix products on packed blocks. Why our own: every element is the same chain of multiply-adds
// (over k in blocks of fixed depth, in order) wherever it lies, so its bits depend neither on
// threads nor on tiles nor on how many rows a device holds; and a call allocates nothing, which no
// library promises.
//
//   c[m, n] (+)= a[m, k] * b[k, n];  a and b by strides (a transpose is free), c with unit column
//   stride.
//
// Requirements: scratch of ProductWorkspace(m, n, k, pool threads) bytes
// (oneflow_core/op/workspace.h), 64-byte aligned; c does not overlap a or b.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"

namespace oneflow {

template <typename T>
struct GemmArgs {
  int64_t m, n, k;
  Strided<T> a, b;
  T* c;
  int64_t c_row;
  bool accumulate = false;
};

// With the threads of `pool`.
template <typename T>
void Gemm(const VectorKernels<T>& vector, const GemmArgs<T>& args, std::byte* scratch,
          ThreadPool& pool);

// On the calling thread alone: for products inside a task. Same bits as Gemm. Scratch as for one
// thread.
template <typename T>
void GemmSerial(const VectorKernels<T>& vector, const GemmArgs<T>& args, std::byte* scratch);

}  // namespace oneflow
