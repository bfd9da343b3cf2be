// Attention of new positions to a cache of keys and values, which they first enter. A block has one
// new position of a head and iterates over the keys that it sees in chunks that begin at multiples
// of kKeys, so the bits do not depend on the split of a text into calls.
#include <cmath>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/qkv_strides.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kKeys = 128;     // of a chunk: one a thread
static_assert(kKeys > kWarp);  // BlockSum is a barrier.

// Local sizes: cache[b, 2, g, positions, d], q[b, t, h, d], k and v[b, t, g, d], with h = g r. A
// position sees the last `window` ones; 0: all.
struct CacheSizes {
  int64_t b, t, h, g, r, d, positions, window;
  float scale, cap;  // of scores; cap 0: they are not capped

  __device__ float Score(float dot) const {
    const float score = dot * scale;
    return cap == 0 ? score : cap * tanhf(score / cap);
  }

  // Columns that threads work on side by side, each group of them with other keys of a chunk.
  __host__ __device__ int group_columns() const {
    return d >= kKeys ? kKeys : static_cast<int>((d + kWarp - 1) / kWarp * kWarp);
  }
  __host__ __device__ int groups() const { return kKeys / group_columns(); }
  size_t shared_bytes() const { return static_cast<size_t>(d + kKeys + groups() * d) * 4; }

  // The query of new position `i`, and its result.
  __device__ int64_t Query(int64_t batch, int64_t head, int64_t i) const {
    return ((batch * t + i) * h + head) * d;
  }
  // The key or the value of a group.
  __device__ int64_t New(int64_t batch, int64_t group, int64_t i) const {
    return ((batch * t + i) * g + group) * d;
  }
  // Rows of all positions: keys (0) or values (1).
  __device__ int64_t Cached(int64_t batch, int64_t group, int64_t which) const {
    return ((batch * 2 + which) * g + group) * positions * d;
  }
};

// The kernel cannot refuse a position outside of the cache: it stores nothing, and the result is
// NaN.
__device__ inline bool IsInside(const CacheSizes& s, int32_t position) {
  return position >= 0 && position < s.positions;
}

// Stores keys and values of the new positions, [b, t, 2, g, d], in the cache.
__global__ void __launch_bounds__(kThreads) EnterKernel(CacheSizes s, float* cache, const float* k,
                                                        const float* v, const int32_t* position) {
  const int64_t i = GlobalThread(), c = i % s.d, row = i / s.d, g = s.g;
  if (i >= s.b * s.t * 2 * g * s.d || !IsInside(s, *position)) return;
  const int64_t group = row % g, which = row / g % 2, at = row / (2 * g) % s.t;
  const int64_t batch = row / (2 * g * s.t), row_at = *position + at;
  if (row_at >= s.positions) return;
  cache[s.Cached(batch, group, which) + row_at * s.d + c] =
      (which == 0 ? k : v)[s.New(batch, group, at) + c];
}

template <int kSize>
__global__ void __launch_bounds__(kKeys)
    AttendKernel(CacheSizes s, float* out, const float* cache, const float* q,
                 const int32_t* position, const float* sinks) {
  __shared__ float scratch[kKeys / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t i = blockIdx.x % s.t, head = blockIdx.x / s.t % s.h;
  const int64_t batch = blockIdx.x / (s.t * s.h);
  float* to = out + s.Query(batch, head, i);
  if (!IsInside(s, *position)) {
    for (int64_t c = thread; c < s.d; c += kKeys) to[c] = NAN;
    return;
  }
  float* query = DynamicShared<float>();
  float* weights = query + s.d;
  float* sums = weights + kKeys;  // [groups][d]
  const int groups = s.groups(), group_columns = s.group_columns();
  for (int64_t c = thread; c < s.d; c += kKeys) query[c] = q[s.Query(batch, head, i) + c];
  for (int64_t c = thread; c < groups * s.d; c += kKeys) sums[c] = 0;
  const float* keys = cache + s.Cached(batch, head / s.r, 0);
  const float* values = cache + s.Cached(batch, head / s.r, 1);
  const int64_t end = *position + i + 1, seen = end < s.positions ? end : s.positions;
  // A position past the end is padding, and sees at least the last key.
  const int64_t far = s.window > 0 && end > s.window ? end - s.window : 0;
  const int64_t begin = far < seen ? far : seen - 1;
  const int group = thread / group_columns;
  float max = -INFINITY, sum = 0;
  for (int64_t first = begin / kKeys * kKeys; first < seen; first += kKeys) {
    __syncthreads();  // The query is there; the last weights have been read.
    float score = -INFINITY;
    if (first + thread >= begin && first + thread < seen) {
      const float* key = keys + (first + thread) * s.d;
      float dot = 0;
      for (int64_t c = 0; c < s.d; c += kSize) {
        const Floats<kSize> part = LoadPack<kSize>(key + c);
#pragma unroll
        for (int j = 0; j < kSize; ++j) dot += query[c + j] * part.at[j];
      }
      score = s.Score(dot);
    }
    const float top = Larger()(max, BlockMax(score, scratch, Scratch::kFree));
    const float weight = expf(score - top), shrink = expf(max - top);
    weights[thread] = weight;
    sum = sum * shrink + BlockSum(weight, scratch, Scratch::kUsed);
    max = top;
    // BlockSum has let all threads see the weights.
    const int there = seen - first < kKeys ? static_cast<int>(seen - first) : kKeys;
    for (int64_t c = thread % group_columns; c < s.d && group < groups; c += group_columns) {
      float total = sums[group * s.d + c] * shrink;
      for (int key = group; key < there; key += groups) {
        total += weights[key] * values[(first + key) * s.d + c];
      }
      sums[group * s.d + c] = total;
    }
  }
  // An infinite sum leaves the keys no weight.
  if (sinks != nullptr) sum += expf(sinks[blockIdx.x / s.t % s.h] - max);
  __syncthreads();
  for (int64_t c = thread; c < s.d; c += kKeys) {
    float total = sums[c];
    for (int g = 1; g < groups; ++g) total += sums[g * s.d + c];
    to[c] = total / sum;
  }
}

absl::StatusOr<Kernel> MakeCachedAttention(const KernelSetup& setup) {
  RETURN_IF_ERROR(NeedF32(setup, setup.out[1].dtype));
  const Dims& cache = setup.out[0].local();
  const QkvSizes n = SeparateSizes(In(setup, 0).local(), In(setup, 1).local());
  const CacheSizes sizes{n.b,
                         n.t,
                         n.g * n.r,
                         n.g,
                         n.r,
                         n.d,
                         cache[3],
                         IntAttr(setup, "window"),
                         FindScale<float>(DoubleAttr(setup, "scale"), n.d),
                         static_cast<float>(DoubleAttr(setup, "soft_cap"))};
  constexpr size_t kMostShared = 40 << 10;  // A block has 48 KiB, its static arrays included.
  if (sizes.shared_bytes() > kMostShared) {
    return absl::UnimplementedError(setup.name + ": attention to a cache with heads of " +
                                    std::to_string(sizes.d));
  }
  const bool has_sinks = BoolAttr(setup, "sinks");
  return ForPacks<PackSize<float>()>(sizes.d, [&](auto size) {
    return Kernel([s = sizes, has_sinks](const KernelCall& call) -> absl::Status {
      const int64_t entering = s.b * s.t * 2 * s.g * s.d;
      if (entering == 0) return absl::OkStatus();
      float *cache = call.output<float>(0), *out = call.output<float>(1);
      const int32_t* position = call.input<int32_t>(3);
      RETURN_IF_ERROR(Launch("cached_attention", &EnterKernel, ElementsShape(entering),
                             FindStream(call), s, cache, call.input<float>(1), call.input<float>(2),
                             position));
      if (s.h == 0) return absl::OkStatus();  // other devices have the heads of the groups
      return Launch("cached_attention", &AttendKernel<decltype(size)::value>,
                    {MakeGrid(s.b * s.h * s.t), dim3(kKeys), s.shared_bytes()}, FindStream(call), s,
                    out, cache, call.input<float>(0), position,
                    has_sinks ? call.input<float>(4) : nullptr);
    });
  });
}

}  // namespace

KernelTable CachedAttentionTable() { return {{"cached_attention", MakeCachedAttention}}; }

}  // namespace oneflow::cuda
