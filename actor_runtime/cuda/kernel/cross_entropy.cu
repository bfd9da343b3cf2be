// The parts of softmax cross entropy. If the vocabulary is split, each part is local; the maxima,
// sums and picked logits are reduced between the parts (as Pmax and P). A block works on a row.
#include <cmath>
#include <cstdint>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/logit_rows.h"
#include "actor_runtime/cuda/kernel/map.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/soft_cap.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/label_count.h"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

// Calls visit(c, values) for this thread's elements of a row: packs if the row is aligned, and
// single elements before and after them. Rows of an odd vocabulary begin at any address.
template <typename S, typename Visit>
__device__ inline void ForRow(const S* row, int64_t width, Visit visit) {
  constexpr int kSize = PackSize<S>();
  const int64_t thread = threadIdx.x;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(S) % kSize);
  const int64_t to_pack = (kSize - past) % kSize, head = to_pack < width ? to_pack : width;
  const int64_t packs = (width - head) / kSize, tail = head + packs * kSize;
  if (thread < head) visit(thread, LoadPack<1>(row + thread));
#pragma unroll 4
  for (int64_t i = thread; i < packs; i += blockDim.x) {
    const int64_t c = head + i * kSize;
    visit(c, LoadPack<kSize>(row + c));
  }
  if (tail + thread < width) visit(tail + thread, LoadPack<1>(row + tail + thread));
}

template <typename S>
__global__ void __launch_bounds__(512) RowMaxKernel(int64_t width, float* y, const S* x) {
  __shared__ float scratch[kMostThreads / kWarp];
  float most = -INFINITY;
  ForRow(x + blockIdx.x * width, width, [&](int64_t, const auto& v) {
    for (const float value : v.at) most = Larger()(most, value);
  });
  most = BlockMax(most, scratch, Scratch::kFree);
  if (threadIdx.x == 0) y[blockIdx.x] = most;
}

template <typename S>
__global__ void __launch_bounds__(512)
    RowSumExpKernel(int64_t width, bool accumulate, float* y, const S* x, const float* max) {
  __shared__ float scratch[kMostThreads / kWarp];
  const float top = max[blockIdx.x];
  float sum = 0;
  ForRow(x + blockIdx.x * width, width, [&](int64_t, const auto& v) {
    for (const float value : v.at) sum += expf(value - top);
  });
  sum = BlockSum(sum, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(y + blockIdx.x, sum, accumulate);
}

// Computes all three in one pass: each thread keeps its maximum so far and the sum of exponents
// below it, which shrinks when a larger maximum comes (Milakov, Gimelshein 2018, "Online normalizer
// calculation for softmax").
template <typename S>
__global__ void __launch_bounds__(512)
    RowStatsKernel(int64_t width, float* max, float* sum, float* picked, const S* x,
                   const int32_t* ids) {
  __shared__ float scratch[kMostThreads / kWarp];
  const S* row = x + blockIdx.x * width;
  float most = -INFINITY, below = 0;
  ForRow(row, width, [&](int64_t, const auto& v) {
    float top = most;
#pragma unroll
    for (const float x : v.at) top = Larger()(top, x);
    below *= top == most ? 1.0f : expf(most - top);
    most = top;
#pragma unroll
    for (const float x : v.at) below += expf(x - top);
  });
  const float top = BlockMax(most, scratch, Scratch::kFree);
  // A thread without a column has no maximum.
  const float total =
      BlockSum(below == 0 ? 0.0f : below * expf(most - top), scratch, Scratch::kUsed);
  if (threadIdx.x != 0) return;
  const int64_t id = ids[blockIdx.x];
  max[blockIdx.x] = top;
  sum[blockIdx.x] = total;
  picked[blockIdx.x] = id >= 0 && id < width ? Wide(row[id]) : 0.0f;
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    PickKernel(LogitSizes s, bool accumulate, float* y, const S* x, const int32_t* ids) {
  const int64_t row = GlobalThread();
  if (row >= s.rows) return;
  const int64_t column = ids[row] - s.first;
  const bool here = column >= 0 && column < s.width;
  Put(y + row, here ? Wide(x[row * s.width + column]) : 0.0f, accumulate);
}

// One block, in f64. `labels` may be null; a row whose label is negative adds nothing.
__global__ void __launch_bounds__(kMostThreads)
    MeanNllKernel(int64_t rows, double scale, bool accumulate, float* loss, const float* max,
                  const float* sum, const float* picked, const int32_t* labels) {
  __shared__ double scratch[kMostThreads / kWarp];
  double total = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    if (labels != nullptr && labels[row] < 0) continue;
    total += static_cast<double>(max[row]) + log(static_cast<double>(sum[row])) -
             static_cast<double>(picked[row]);
  }
  total = BlockSum(total, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(loss, static_cast<float>(total * scale), accumulate);
}

// One block. The sum of ones is exact in any order.
__global__ void __launch_bounds__(kMostThreads)
    CountLabelsKernel(int64_t rows, bool accumulate, double* out, const int32_t* labels) {
  __shared__ double scratch[kMostThreads / kWarp];
  double count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) count += labels[row] >= 0;
  count = BlockSum(count, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(out, count, accumulate);
}

template <typename T>
__global__ void DivideKernel(T* out, const T* a, const double* b) {
  if (threadIdx.x == 0) *out = static_cast<T>(*a / Divisor(*b));
}

// The label's column is rounded after the subtraction: if a probability near one were rounded
// before it, only its rounding error would be left.
template <typename S>
__global__ void __launch_bounds__(512)
    CrossEntropyGradKernel(LogitSizes s, double scale, bool ignores, float cap, bool accumulate,
                           S* dx, const S* x, const int32_t* labels, const float* max,
                           const float* sum, const float* dloss) {
  const int64_t row = blockIdx.x, label = labels[row] - s.first;
  const float factor = static_cast<float>(scale * static_cast<double>(*dloss));
  const float top = max[row], weight = factor / sum[row];
  const bool counts = !ignores || labels[row] >= 0;
  dx += row * s.width;
  ForRow(x + row * s.width, s.width, [&](int64_t c, auto v) {
    int64_t column = c;
    for (float& value : v.at) {
      const float x = value;
      value = counts ? expf(x - top) * weight - (column++ == label ? factor : 0.0f) : 0.0f;
      // Rounded as the gradient of capped logits would be.
      if (cap != 0.0f) value = SoftCapGrad{cap}(Wide(Narrow<S>(value)), x);
    }
    PutPack(dx + c, v, accumulate);
  });
}

LogitSizes FindSizes(const KernelSetup& s) {
  return {CountRows(In(s, 0)), LastDim(In(s, 0)), In(s, 0).slice.begin.back()};
}

absl::StatusOr<Kernel> MakeRowMax(const KernelSetup& setup) {
  return ForStoredAs(setup, In(setup, 0).dtype, [&]<typename S>(S) {
    return Kernel([s = FindSizes(setup)](const KernelCall& call) {
      if (s.rows == 0) return absl::OkStatus();
      return Launch("row_max", &RowMaxKernel<S>, RowsShape(s.rows, s.width), FindStream(call),
                    s.width, call.output<float>(0), call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeRowSumExp(const KernelSetup& setup) {
  return ForStoredAs(setup, In(setup, 0).dtype, [&]<typename S>(S) {
    return Kernel([s = FindSizes(setup)](const KernelCall& call) {
      if (s.rows == 0) return absl::OkStatus();
      return Launch("row_sum_exp", &RowSumExpKernel<S>, RowsShape(s.rows, s.width),
                    FindStream(call), s.width, call.accumulate, call.output<float>(0),
                    call.input<S>(0), call.input<float>(1));
    });
  });
}

absl::StatusOr<Kernel> MakePick(const KernelSetup& setup) {
  return ForStoredAs(setup, In(setup, 0).dtype, [&]<typename S>(S) {
    return Kernel([s = FindSizes(setup)](const KernelCall& call) {
      if (s.rows == 0) return absl::OkStatus();
      return Launch("pick", &PickKernel<S>, ElementsShape(s.rows), FindStream(call), s,
                    call.accumulate, call.output<float>(0), call.input<S>(0),
                    call.input<int32_t>(1));
    });
  });
}

// UNIMPLEMENTED unless logits are f32 or bf16.
absl::StatusOr<DType> FindLogitType(const KernelSetup& setup) {
  const DType dtype = In(setup, 0).dtype;
  if (dtype != DType::kBF16) RETURN_IF_ERROR(NeedF32(setup, dtype));
  return dtype;
}

absl::StatusOr<Kernel> MakeRowStats(const KernelSetup& setup) {
  ASSIGN_OR_RETURN(const DType dtype, FindLogitType(setup));
  return Kernel([dtype, s = FindSizes(setup)](const KernelCall& call) {
    const RowStatistics out{call.output<float>(0), call.output<float>(1), call.output<float>(2)};
    return LaunchRowStats(dtype, s, call.in[0][0], call.input<int32_t>(1), out, FindStream(call));
  });
}

absl::StatusOr<Kernel> MakeMeanNll(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  const int64_t rows = Elements(In(s, 0));
  const double scale = BoolAttr(s, "gradient_only") ? 0 : DoubleAttr(s, "scale", 1);
  const bool ignores = s.in.size() > 3;
  return Kernel([=](const KernelCall& call) {
    return Launch("mean_nll", &MeanNllKernel, {dim3(1), dim3(kMostThreads)}, FindStream(call), rows,
                  scale, call.accumulate, call.output<float>(0), call.input<float>(0),
                  call.input<float>(1), call.input<float>(2),
                  ignores ? call.input<int32_t>(3) : nullptr);
  });
}

absl::StatusOr<Kernel> MakeCountLabels(const KernelSetup& s) {
  return Kernel([rows = Elements(In(s, 0))](const KernelCall& call) {
    return Launch("count_labels", &CountLabelsKernel, {dim3(1), dim3(kMostThreads)},
                  FindStream(call), rows, call.accumulate, call.output<double>(0),
                  call.input<int32_t>(0));
  });
}

absl::StatusOr<Kernel> MakeDivide(const KernelSetup& s) {
  const auto make = []<typename T>(T) {
    return Kernel([](const KernelCall& call) {
      return Launch("divide", &DivideKernel<T>, {dim3(1), dim3(kWarp)}, FindStream(call),
                    call.output<T>(0), call.input<T>(0), call.input<double>(1));
    });
  };
  if (s.out[0].dtype == DType::kF64) return make(double{});
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  return make(float{});
}

absl::StatusOr<Kernel> MakeCrossEntropyGrad(const KernelSetup& setup) {
  const double scale = DoubleAttr(setup, "scale", 1);
  const bool ignores = BoolAttr(setup, "ignore_negative");
  ASSIGN_OR_RETURN(const DType dtype, FindLogitType(setup));
  return Kernel([dtype, scale, ignores, s = FindSizes(setup)](const KernelCall& call) {
    const LogitGradInputs in{.labels = call.input<int32_t>(1),
                             .max = call.input<float>(2),
                             .sum = call.input<float>(3),
                             .dloss = call.input<float>(4),
                             .scale = scale,
                             .ignores = ignores};
    return LaunchLogitGrads(dtype, s, call.in[0][0], in, call.accumulate, call.out[0],
                            FindStream(call));
  });
}

template <typename S>
absl::Status LaunchTypedStats(const LogitSizes& s, const void* x, const int32_t* labels,
                              const RowStatistics& out, cudaStream_t stream) {
  return Launch("row_stats", &RowStatsKernel<S>, RowsShape(s.rows, s.width), stream, s.width,
                out.max, out.sum, out.picked, static_cast<const S*>(x), labels);
}

template <typename S>
absl::Status LaunchTypedGrads(const LogitSizes& s, const void* x, const LogitGradInputs& in,
                              bool accumulate, void* dx, cudaStream_t stream) {
  return Launch("cross_entropy_grad", &CrossEntropyGradKernel<S>, RowsShape(s.rows, s.width),
                stream, s, in.scale, in.ignores, in.cap, accumulate, static_cast<S*>(dx),
                static_cast<const S*>(x), in.labels, in.max, in.sum, in.dloss);
}

template <typename S>
absl::Status LaunchTypedCap(const LogitSizes& s, float cap, void* logits, cudaStream_t stream) {
  constexpr int kSize = PackSize<S>();
  const int64_t n = s.rows * s.width;
  return Launch("soft_cap", &MapKernel<SoftCap, kSize, S, S>, ElementsShape(n, kSize), stream,
                SoftCap{cap}, n, /*accumulate=*/false, static_cast<S*>(logits),
                static_cast<const S*>(logits));
}

}  // namespace

absl::Status LaunchLogitCap(DType dtype, const LogitSizes& sizes, float cap, void* logits,
                            cudaStream_t stream) {
  if (sizes.rows * sizes.width == 0) return absl::OkStatus();
  const auto launch = dtype == DType::kBF16 ? &LaunchTypedCap<Bf16> : &LaunchTypedCap<float>;
  return launch(sizes, cap, logits, stream);
}

absl::Status LaunchRowStats(DType dtype, const LogitSizes& sizes, const void* logits,
                            const int32_t* labels, const RowStatistics& out, cudaStream_t stream) {
  if (sizes.rows == 0) return absl::OkStatus();
  const auto launch = dtype == DType::kBF16 ? &LaunchTypedStats<Bf16> : &LaunchTypedStats<float>;
  return launch(sizes, logits, labels, out, stream);
}

absl::Status LaunchLogitGrads(DType dtype, const LogitSizes& sizes, const void* logits,
                              const LogitGradInputs& in, bool accumulate, void* dlogits,
                              cudaStream_t stream) {
  if (sizes.rows * sizes.width == 0) return absl::OkStatus();
  const auto launch = dtype == DType::kBF16 ? &LaunchTypedGrads<Bf16> : &LaunchTypedGrads<float>;
  return launch(sizes, logits, in, accumulate, dlogits, stream);
}

KernelTable CrossEntropyTable() {
  return {{"count_labels", MakeCountLabels},
          {"cross_entropy_grad", MakeCrossEntropyGrad},
          {"divide", MakeDivide},
          {"mean_nll", MakeMeanNll},
          {"pick", MakePick},
          {"row_max", MakeRowMax},
          {"row_stats", MakeRowStats},
          {"row_sum_exp", MakeRowSumExp}};
}

}  // namespace oneflow::cuda
