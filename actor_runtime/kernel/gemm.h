// Matrix products on packed blocks. Why our own: every element is the same chain of multiply-adds
// (over k in blocks of fixed depth, in order) wherever it lies, so its bits depend neither on
// threads nor on tiles nor on how many rows a device holds; and a call allocates nothing, which no
// library promises.
//
//   c[m, n] (+)= a[m, k] * b[k, n] + bias[n];  a and b by strides (a transpose is free), c with
//   unit column stride.
//
// Types: f32 or f64 throughout; or bf16 factors with f32 sums, and c f32, or bf16 rounded once from
// the finished sum. If only one factor is bf16, the other, f32, is rounded to bf16 too.
//
// Requirements: scratch of ProductWorkspace(m, n, k) bytes (oneflow_core/op/workspace.h), 64-byte
// aligned; c does not overlap a or b; only sums accumulate (not a bf16 c).
//
//   Gemm(*ProductKernelsFor<Bf16>(BestIsa()), GemmArgs<Bf16>{m, n, k, {x, k, 1}, {w, n, 1}, y, n},
//   scratch,
//        pool);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/kernel/simd/product_kernels.h"

namespace oneflow {

// What factors stored as A and B are multiplied as.
template <typename A, typename B>
using FactorOf = std::conditional_t<std::is_same_v<A, Bf16> || std::is_same_v<B, Bf16>, Bf16, A>;

template <typename A, typename B = A, typename C = SumOf<FactorOf<A, B>>>
struct GemmArgs {
  int64_t m, n, k;
  Strided<A> a;
  Strided<B> b;
  C* c;
  int64_t c_row;
  bool accumulate = false;
  const SumOf<FactorOf<A, B>>* bias = nullptr;  // n elements, or none
  // Called once for every piece of a row of c when it is finished, and still in cache: elements
  // [column, column + columns) of `row`. On any thread; pieces do not overlap.
  std::optional<absl::FunctionRef<void(int64_t row, int64_t column, int64_t columns)>> finished;
};

// With the threads of `pool`.
template <typename A, typename B, typename C>
void Gemm(const ProductKernels<FactorOf<A, B>>& kernels, const GemmArgs<A, B, C>& args,
          std::byte* scratch, ThreadPool& pool);

// On the calling thread alone: for products inside a task. Same bits as Gemm.
template <typename A, typename B, typename C>
void GemmSerial(const ProductKernels<FactorOf<A, B>>& kernels, const GemmArgs<A, B, C>& args,
                std::byte* scratch);

}  // namespace oneflow
