// Attention of new positions to a cache of keys and values, which they first enter. A task is a
// group of heads of a sequence: its keys are contiguous in the cache, and so are its values. Every
// score and every sum runs over the cache in order of positions, so the bits do not depend on the
// split of a text into calls.
#include <algorithm>
#include <cmath>

#include "actor_runtime/kernel/gemm.h"
#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/qkv_strides.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

// Local sizes: cache[b, 2, g, positions, d].
struct CacheShape {
  QkvSizes n;
  QkvStrides strides;
  int64_t positions, window;
  double scale, cap;     // attributes
  int64_t thread_bytes;  // a thread's part of the workspace
};

template <typename T>
struct CachedAttention {
  const VectorKernels<T>& v;
  const ProductKernels<T>& products;
  const CacheShape& s;
  const T* parts[3];  // q, k, v
  const T* sinks;     // [g, r], or null
  T *cache, *out;
  int64_t position;  // the first new one

  // Rows of all positions: keys (0) or values (1).
  T* Cached(int64_t batch, int64_t group, int64_t which) const {
    return cache + ((batch * 2 + which) * s.n.g + group) * s.positions * s.n.d;
  }

  void Enter(int64_t batch, int64_t group) const {
    const int64_t n = std::min(s.n.t, s.positions - position);
    for (int which = 0; which < 2; ++which) {
      const T* from = parts[which + 1] + s.strides.At(which + 1, batch, group);
      T* to = Cached(batch, group, which) + position * s.n.d;
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(from + i * s.strides.row[which + 1], s.n.d, to + i * s.n.d);
      }
    }
  }

  // The first key that a query at `position` sees.
  int64_t FirstSeen(int64_t at) const {
    return s.window == 0 ? 0 : std::max<int64_t>(0, at - s.window + 1);
  }

  // Queries that are multiplied together: of one head at consecutive positions, or of several heads
  // at one position.
  struct Queries {
    const T* from;
    T* to;
    const T* sinks;       // that of the first, or null
    int64_t rows, row;    // elements from one to the next
    int64_t begin, step;  // position of the first; from one to the next
  };

  void Attend(int64_t batch, int64_t group, const Queries& q, std::byte* scratch) const {
    const int64_t d = s.n.d, last = q.begin + (q.rows - 1) * q.step;
    // Queries behind the cache are padding; a window of theirs may begin behind it.
    const int64_t first = std::min(FirstSeen(q.begin), s.positions - 1);
    const int64_t keys = std::min(last + 1, s.positions) - first;
    T* scores = reinterpret_cast<T*>(scratch);
    std::byte* product = scratch + (q.rows * s.positions * sizeof(T) + 63) / 64 * 64;
    const T* cached_keys = Cached(batch, group, 0) + first * d;
    GemmSerial(products,
               GemmArgs<T>{q.rows, keys, d, {q.from, q.row, 1}, {cached_keys, 1, d}, scores, keys},
               product);
    const T scale = FindScale<T>(s.scale, d), cap = T(s.cap);
    for (int64_t i = 0; i < q.rows; ++i) {
      T* row = scores + i * keys;
      const int64_t at = q.begin + i * q.step;
      const int64_t seen = std::min(at + 1 - first, keys);
      const int64_t unseen = std::min(FirstSeen(at) - first, seen);
      std::fill(row, row + unseen, T(0));
      if (seen > unseen) {
        T max, factor = scale;
        if (cap != 0) {
          for (int64_t k = unseen; k < seen; ++k) row[k] = cap * std::tanh(row[k] * scale / cap);
          factor = T(1);
        }
        T sum = v.softmax_row(row + unseen, factor, seen - unseen, &max);
        // An infinite sum leaves the keys no weight.
        if (q.sinks != nullptr) sum += std::exp(q.sinks[q.step == 0 ? i : 0] - max * factor);
        v.scale(T(1) / sum, row + unseen, seen - unseen);
      }
      std::fill(row + seen, row + keys, T(0));
    }
    const T* values = Cached(batch, group, 1) + first * d;
    GemmSerial(products,
               GemmArgs<T>{q.rows, d, keys, {scores, keys, 1}, {values, d, 1}, q.to, q.row},
               product);
  }
};

absl::StatusOr<Kernel> MakeCachedAttention(const KernelSetup& setup) {
  const Dims& cache = setup.out[0].local();
  CacheShape shape{};
  shape.n = SeparateSizes(In(setup, 0).local(), In(setup, 1).local());
  shape.strides = SeparateStrides(shape.n);
  shape.positions = cache[3];
  shape.window = IntAttr(setup, "window");
  shape.scale = DoubleAttr(setup, "scale");
  shape.cap = DoubleAttr(setup, "soft_cap");
  shape.thread_bytes =
      CachedAttentionWorkspacePerThread(shape.n.t, shape.n.r, shape.positions, shape.n.d);
  RETURN_IF_ERROR(NeedWorkspace(setup, shape.thread_bytes * setup.threads));
  const bool has_sinks = BoolAttr(setup, "sinks");
  return ForFloats(setup, setup.out[1].dtype, [&]<typename T>(T) -> Kernel {
    return [s = shape, has_sinks, name = setup.name, &v = *VectorFor<T>(setup.isa),
            &products = *ProductKernelsFor<T>(setup.isa)](const KernelCall& call) -> absl::Status {
      const CachedAttention<T> attention{v,
                                         products,
                                         s,
                                         {call.input<T>(0), call.input<T>(1), call.input<T>(2)},
                                         has_sinks ? call.input<T>(4) : nullptr,
                                         call.output<T>(0),
                                         call.output<T>(1),
                                         *call.input<int32_t>(3)};
      if (attention.position < 0 || attention.position >= s.positions) {
        return InputError(name, "position " + std::to_string(attention.position) +
                                    " is outside of a cache of " + std::to_string(s.positions));
      }
      call.pool->ParallelFor(static_cast<int>(s.n.b * s.n.g), [&](int task, int thread) {
        const int64_t batch = task / s.n.g, group = task % s.n.g;
        std::byte* scratch = call.workspace.data() + thread * s.thread_bytes;
        attention.Enter(batch, group);
        // Out has the layout of q.
        const int64_t at = s.strides.At(0, batch, group), row = s.strides.row[0];
        const T* from = attention.parts[0] + at;
        T* to = attention.out + at;
        const bool one = s.n.t == 1;  // its heads are side by side
        const int64_t rows = one ? s.n.r : s.n.t, apart = one ? s.n.d : row, step = one ? 0 : 1;
        for (int64_t head = 0; head < (one ? 1 : s.n.r); ++head) {
          for (int64_t first = 0; first < rows; first += kCachedQueries) {
            const int64_t offset = head * s.n.d + first * apart;
            attention.Attend(
                batch, group,
                {from + offset, to + offset,
                 has_sinks ? attention.sinks + group * s.n.r + (one ? first : head) : nullptr,
                 std::min(kCachedQueries, rows - first), apart, attention.position + first * step,
                 step},
                scratch);
          }
        }
      });
      return absl::OkStatus();
    };
  });
}

}  // namespace

KernelTable CachedAttentionTable() { return {{"cached_attention", MakeCachedAttention}}; }

}  // namespace oneflow
