// Gemm: matrix products on packed blocks. It exists because every element is the same chain of
// multiply-adds (over k in blocks of fixed depth, in order) at every position, so its bits depend
// neither on threads nor on tiles nor on the number of rows on a device; and because a call
// allocates nothing, which no library promises.
//
//   c[m, n] (+)= a[m, k] * b[k, n] + bias[n];  a and b by strides (a transpose is free), c with
//   unit column stride.
//
// Types: f32 or f64 throughout; or bf16 factors with f32 sums, and c f32, or bf16 rounded once from
// the final sum.
//
// Requirements: scratch of ProductWorkspace(m, n, k) bytes (oneflow_core/device/cpu_scratch.h),
// 64-byte aligned; c does not overlap a or b; only sums accumulate (not a bf16 c).
//
//   const GemmArgs<Bf16> args{m, n, k, {x, k, 1}, {w, n, 1}, y, n};
//   Gemm(*ProductKernelsFor<Bf16>(BestIsa()), args, scratch, pool);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/simd/product_kernels.h"

namespace oneflow {

template <typename T, typename C = SumType<T>>
struct GemmArgs {
  int64_t m, n, k;
  Strided<T> a, b;
  C* c;
  int64_t c_row;
  bool accumulate = false;
  const SumType<T>* bias = nullptr;  // n elements, or none
  // Called once for every piece of a row of c when it is final, and still in cache: elements
  // [column, column + columns) of `row`. Any thread may call it; pieces do not overlap.
  std::optional<absl::FunctionRef<void(int64_t row, int64_t column, int64_t columns)>> finished;
};

// Uses the threads of `pool`.
template <typename T, typename C>
void Gemm(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch,
          ThreadPool& pool);

// Runs on the calling thread alone, for products inside a task. Gives the same bits as Gemm.
template <typename T, typename C>
void GemmSerial(const ProductKernels<T>& kernels, const GemmArgs<T, C>& args, std::byte* scratch);

}  // namespace oneflow
