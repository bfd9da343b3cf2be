// Tokens into the queues of experts, and back.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/map.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/queue_map.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

// The columns of a row that a lane visits: packs, a warp's width apart.
template <int kSize, typename Visit>
__device__ inline void ForColumnsOfWarp(int64_t width, Visit visit) {
  for (int64_t c = LaneIndex() * kSize; c < width; c += kWarp * kSize) visit(c);
}

// A warp is a choice. Slots have one token at most.
template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    DispatchKernel(QueueMap m, int64_t width, S* y, const S* x, const int32_t* ids,
                   const int32_t* slots, const float* w) {
  const int64_t i = GlobalWarp();
  if (i >= m.tokens * m.choices) return;
  const int64_t token = i / m.choices, row = m.Row(m.Run(token), ids[i], slots[i]);
  if (row < 0) return;
  x += token * width;
  y += row * width;
  if (w == nullptr) {
    ForColumnsOfWarp<kSize>(width, [&](int64_t c) {
      using P = Pack<S, kSize>;
      *reinterpret_cast<P*>(y + c) = *reinterpret_cast<const P*>(x + c);
    });
    return;
  }
  const float factor = w[i];
  ForColumnsOfWarp<kSize>(width, [&](int64_t c) {
    Floats<kSize> v = LoadPack<kSize>(x + c);
#pragma unroll
    for (int j = 0; j < kSize; ++j) v.at[j] *= factor;
    StorePack<kSize>(y + c, v);
  });
}

absl::StatusOr<Kernel> MakeDispatch(const KernelSetup& s) {
  const QueueMap map = MapQueues(s, s.out[0], In(s, 1));
  const int64_t width = LastDim(s.out[0]), size = Elements(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(width, [&](auto pack) {
      return Kernel([=, weighted = s.in.size() > 3](const KernelCall& call) -> absl::Status {
        S* y = call.output<S>(0);
        if (!map.full) RETURN_IF_ERROR(Map(call, "dispatch_zeros", Zero(), size, y));
        if (size == 0 || map.tokens == 0) return absl::OkStatus();
        return Launch("dispatch", &DispatchKernel<decltype(pack)::value, S>,
                      WarpsShape(map.tokens * map.choices), FindStream(call), map, width, y,
                      call.input<S>(0), call.input<int32_t>(1), call.input<int32_t>(2),
                      weighted ? call.input<float>(3) : nullptr);
      });
    });
  });
}

// A warp is a token. Sums are made in f32, in the order of choices, and rounded once: lane j has
// the row and the weight of choice j, and then of choice j + 32.
template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    CombineKernel(QueueMap m, int64_t width, S* out, const S* y, const int32_t* ids,
                  const int32_t* slots, const float* w) {
  const int64_t token = GlobalWarp();
  if (token >= m.tokens) return;
  const int64_t run = m.Run(token);
  out += token * width;
  for (int64_t first = 0; first < width; first += kWarp * kSize) {
    const int64_t c = first + LaneIndex() * kSize;
    const bool here = c < width;
    Floats<kSize> sum{};
    for (int64_t begin = 0; begin < m.choices; begin += kWarp) {
      const int64_t mine = begin + LaneIndex(), i = token * m.choices + mine;
      const bool there = mine < m.choices;
      const int64_t my_row = there ? m.Row(run, ids[i], slots[i]) : -1;
      const float my_factor = there && w != nullptr ? w[i] : 1.0f;
      const int count = static_cast<int>(m.choices - begin < kWarp ? m.choices - begin : kWarp);
      for (int j = 0; j < count; ++j) {
        const int64_t row = __shfl_sync(kAllLanes, my_row, j);
        const float factor = __shfl_sync(kAllLanes, my_factor, j);
        if (row < 0 || !here) continue;
        const Floats<kSize> v = LoadPack<kSize>(y + row * width + c);
#pragma unroll
        for (int l = 0; l < kSize; ++l) sum.at[l] += factor * v.at[l];
      }
    }
    if (here) StorePack<kSize>(out + c, sum);
  }
}

absl::StatusOr<Kernel> MakeCombine(const KernelSetup& s) {
  const QueueMap map = MapQueues(s, In(s, 0), In(s, 1));
  const int64_t width = LastDim(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(width, [&](auto pack) {
      return Kernel([=, weighted = s.in.size() > 3](const KernelCall& call) {
        if (map.tokens * width == 0) return absl::OkStatus();
        return Launch("combine", &CombineKernel<decltype(pack)::value, S>, WarpsShape(map.tokens),
                      FindStream(call), map, width, call.output<S>(0), call.input<S>(0),
                      call.input<int32_t>(1), call.input<int32_t>(2),
                      weighted ? call.input<float>(3) : nullptr);
      });
    });
  });
}

// A warp is a choice.
template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    CombineGradKernel(QueueMap m, int64_t width, float* dw, const S* dout, const S* y,
                      const int32_t* ids, const int32_t* slots) {
  const int64_t i = GlobalWarp();
  if (i >= m.tokens * m.choices) return;
  const int64_t token = i / m.choices, row = m.Row(m.Run(token), ids[i], slots[i]);
  float sum = 0;
  if (row >= 0) {
    dout += token * width;
    y += row * width;
    ForColumnsOfWarp<kSize>(width, [&](int64_t c) {
      const Floats<kSize> a = LoadPack<kSize>(dout + c), b = LoadPack<kSize>(y + c);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum += a.at[j] * b.at[j];
    });
  }
  sum = WarpReduce(sum, Plus());
  if (LaneIndex() == 0) dw[i] = sum;
}

absl::StatusOr<Kernel> MakeCombineGrad(const KernelSetup& s) {
  const QueueMap map = MapQueues(s, In(s, 1), In(s, 2));
  const int64_t width = LastDim(In(s, 0)), choices = map.tokens * map.choices;
  return ForStoredAs(s, In(s, 0).dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(width, [&](auto pack) {
      return Kernel([=](const KernelCall& call) {
        if (choices == 0) return absl::OkStatus();
        return Launch("combine_grad", &CombineGradKernel<decltype(pack)::value, S>,
                      WarpsShape(choices), FindStream(call), map, width, call.output<float>(0),
                      call.input<S>(0), call.input<S>(1), call.input<int32_t>(2),
                      call.input<int32_t>(3));
      });
    });
  });
}

}  // namespace

KernelTable DispatchTable() {
  return {{"combine", MakeCombine}, {"combine_grad", MakeCombineGrad}, {"dispatch", MakeDispatch}};
}

}  // namespace oneflow::cuda
