// Attention of new positions to a cache of keys and values, which they first enter. A task is a
// head of a sequence: its keys are contiguous in the cache, and so are its values. Every score and
// every sum runs over the cache in order of positions, so the bits do not depend on the split of a
// text into calls.
#include <algorithm>
#include <cmath>

#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

// Local sizes: cache[b, 2, h, positions, d], qkv[b, t, 3, h, d].
struct CacheShape {
  int64_t b, t, h, d, positions;
  int64_t thread_bytes;  // a thread's part of the workspace
};

template <typename T>
struct CachedAttention {
  const VectorKernels<T>& v;
  const ProductKernels<T>& products;
  const CacheShape& s;
  const T* qkv;
  T *cache, *out;
  int64_t position;  // the first new one

  // The row of new position `i`: query (0), key (1) or value (2).
  const T* New(int64_t batch, int64_t head, int64_t i, int64_t which) const {
    return qkv + (((batch * s.t + i) * 3 + which) * s.h + head) * s.d;
  }
  // Rows of all positions: keys (0) or values (1).
  T* Cached(int64_t batch, int64_t head, int64_t which) const {
    return cache + ((batch * 2 + which) * s.h + head) * s.positions * s.d;
  }

  void Enter(int64_t batch, int64_t head) const {
    const int64_t n = std::min(s.t, s.positions - position);
    for (int64_t which = 0; which < 2; ++which) {
      T* to = Cached(batch, head, which) + position * s.d;
      for (int64_t i = 0; i < n; ++i)
        std::copy_n(New(batch, head, i, which + 1), s.d, to + i * s.d);
    }
  }

  // New positions [first, first + rows).
  void Attend(int64_t batch, int64_t head, int64_t first, int64_t rows, std::byte* scratch) const {
    const int64_t begin = position + first, keys = std::min(begin + rows, s.positions);
    const int64_t q_row = 3 * s.h * s.d;
    T* scores = reinterpret_cast<T*>(scratch);
    std::byte* product = scratch + (rows * s.positions * sizeof(T) + 63) / 64 * 64;
    GemmSerial(products,
               GemmArgs<T>{rows,
                           keys,
                           s.d,
                           {New(batch, head, first, 0), q_row, 1},
                           {Cached(batch, head, 0), 1, s.d},
                           scores,
                           keys},
               product);
    const T scale = T(1) / std::sqrt(T(s.d));
    for (int64_t i = 0; i < rows; ++i) {
      T* row = scores + i * keys;
      const int64_t seen = std::min(begin + i + 1, keys);
      T max;
      const T sum = v.softmax_row(row, scale, seen, &max);
      v.scale(T(1) / sum, row, seen);
      std::fill(row + seen, row + keys, T(0));
    }
    T* to = out + ((batch * s.t + first) * s.h + head) * s.d;
    GemmSerial(
        products,
        GemmArgs<T>{
            rows, s.d, keys, {scores, keys, 1}, {Cached(batch, head, 1), s.d, 1}, to, s.h * s.d},
        product);
  }
};

}  // namespace

absl::StatusOr<Kernel> MakeCachedAttention(const KernelSetup& setup) {
  const Dims &cache = setup.out[0].local(), &qkv = In(setup, 0).local();
  const CacheShape shape{qkv[0],   qkv[1],
                         qkv[3],   qkv[4],
                         cache[3], CachedAttentionWorkspacePerThread(qkv[1], cache[3], qkv[4])};
  RETURN_IF_ERROR(NeedWorkspace(setup, shape.thread_bytes * setup.threads));
  return ForFloats(setup, setup.out[1].dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    return [s = shape, name = setup.name, &v = *VectorFor<T>(setup.isa),
            &products = *ProductKernelsFor<T>(setup.isa)](const KernelCall& call) -> absl::Status {
      const CachedAttention<T> attention{v,
                                         products,
                                         s,
                                         call.input<T>(0),
                                         call.output<T>(0),
                                         call.output<T>(1),
                                         *call.input<int32_t>(1)};
      if (attention.position < 0 || attention.position >= s.positions) {
        return InputError(name, "position " + std::to_string(attention.position) +
                                    " is outside of a cache of " + std::to_string(s.positions));
      }
      call.pool->ParallelFor(static_cast<int>(s.b * s.h), [&](int task, int thread) {
        const int64_t batch = task / s.h, head = task % s.h;
        std::byte* scratch = call.workspace.data() + thread * s.thread_bytes;
        attention.Enter(batch, head);
        for (int64_t first = 0; first < s.t; first += kCachedQueries) {
          attention.Attend(batch, head, first, std::min(kCachedQueries, s.t - first), scratch);
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace oneflow
