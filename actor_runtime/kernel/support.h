// Helpers of kernel factories: attributes, dtype dispatch, loops over the pool. Internal to kernel/
// and cuda/kernel/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/op/product_spec.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {

// The piece of input i (all kernels but boxing have one source).
const Port& In(const KernelSetup& s, int i);
// Product of dims[begin, end); end < 0: to the last.
int64_t DimsProduct(const Dims& dims, int begin, int end = -1);
int64_t Elements(const Port& port);
int64_t LastDim(const Port& port);  // 1 for a scalar
int64_t CountRows(
    const Port& port);  // elements over all but the last dimension; right for empty ones too

// What the kernel's definition asks of it; `s` outlives the result.
LocalOp MakeLocalOp(const KernelSetup& s);
// The product that the kernel's definition says it is, of its pieces.
ProductSpec FindProduct(const KernelSetup& s);

// INTERNAL unless the plan gives at least `bytes`.
absl::Status NeedWorkspace(const KernelSetup& s, int64_t bytes);

// Converts an element of a tensor that may be stored narrow to the type of computation; and back,
// rounded.
template <typename T>
T Widen(T x) {
  return x;
}
inline float Widen(Bf16 x) { return ToFloat(x); }
template <typename S, typename T>
S Rounded(T x) {
  if constexpr (std::is_same_v<S, Bf16>) return ToBf16(x);
  return S(x);
}

// Copies n elements, or adds them to those that are there.
template <typename T, typename S>
void PutRow(const S* from, int64_t n, bool accumulate, S* to) {
  if (!accumulate) {
    std::copy_n(from, n, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = Rounded<S>(T(Widen(to[i])) + T(Widen(from[i])));
}

// make(T()) with T = float or double by `dtype`; UNIMPLEMENTED for others.
template <typename Make>
absl::StatusOr<Kernel> ForFloats(const KernelSetup& s, DType dtype, Make make) {
  if (dtype == DType::kF32) return make(float());
  if (dtype == DType::kF64) return make(double());
  return absl::UnimplementedError(s.name + ": no kernel \"" + s.kind + "\" for dtype " +
                                  std::string(Name(dtype)));
}

// make(T(), S()) for tensors stored as `dtype`: S is the type in memory and T the type of
// computation: float and Bf16 for bf16, else both as ForFloats.
template <typename Make>
absl::StatusOr<Kernel> ForStored(const KernelSetup& s, DType dtype, Make make) {
  if (dtype == DType::kBF16) return make(float(), Bf16());
  return ForFloats(s, dtype, [&make](auto zero) { return make(zero, zero); });
}

// fn(begin, end) over [0, n) in pieces of `piece`, which must not depend on the number of threads.
template <typename Fn>
void ForPieces(const KernelCall& call, int64_t n, int64_t piece, Fn fn) {
  const int tasks = static_cast<int>((n + piece - 1) / piece);
  auto task = [&](int t, int) { fn(t * piece, std::min(n, (t + 1) * piece)); };
  call.pool->ParallelFor(tasks, task);
}

// Elements of a piece of element-wise work: large enough to hide a hand-over between threads.
inline constexpr int64_t kPiece = 16384;
// The number of rows of `width` with about as many elements.
inline int64_t RowPiece(int64_t width) {
  return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, width));
}

// Columns of a task that sums over all rows of `width`: a few cache lines of each row, and enough
// tasks to share.
inline int64_t ColumnPiece(int64_t width) {
  return std::clamp<int64_t>(width / 8 / 64 * 64, 64, 512);
}

}  // namespace oneflow
