// What the two attention kernels share. Internal to kernel/.
//
// Scores are never all there at once: a task works on a block of queries, whose rows of scores lie
// in its thread's part of the workspace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/op/workspace.h"

namespace oneflow {

// Sizes of a local piece qkv[b, t, 3, h, d].
struct AttentionShape {
  int64_t b, t, h, d;
  int64_t thread_bytes;  // a thread's part of the workspace

  int64_t qkv_row() const { return 3 * h * d; }  // from one position to the next
  int64_t out_row() const { return h * d; }
};

inline absl::StatusOr<AttentionShape> AttentionShapeOf(const KernelSetup& s, const Dims& qkv) {
  AttentionShape a{qkv[0], qkv[1], qkv[3], qkv[4], AttentionWorkspacePerThread(qkv[1], qkv[4])};
  if (absl::Status st = NeedWorkspace(s, a.thread_bytes * s.threads); !st.ok()) return st;
  return a;
}

// Queries of a block; a function of the type only.
template <typename T>
inline constexpr int64_t kQueryBlock = kAttentionRowBytes / static_cast<int64_t>(sizeof(T));

// A thread's scratch: two blocks of scores, then what products need.
template <typename T>
struct AttentionScratch {
  T *scores, *gradients;
  std::byte* product;

  AttentionScratch(const AttentionShape& a, std::byte* base) {
    const int64_t block = std::min(kQueryBlock<T>, a.t) * a.t * static_cast<int64_t>(sizeof(T));
    const int64_t aligned = (block + 63) / 64 * 64;
    scores = reinterpret_cast<T*>(base);
    gradients = reinterpret_cast<T*>(base + aligned);
    product = base + 2 * aligned;
  }
};

}  // namespace oneflow
