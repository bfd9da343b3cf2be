// Once a step: the norm of the gradient and AdamW. The norm stays on the device, so clipping and
// the skip of a step whose norm is not finite are decided there; the numbers of the step come from
// the run, at the call.
#include <algorithm>
#include <cmath>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/adam_numbers.h"
#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

// The sum of block blockIdx.x of kSquaresBlock elements. Each f32 square is exact in f64.
__global__ void __launch_bounds__(kThreads) SquaresKernel(int64_t n, double* sums, const float* g) {
  __shared__ double scratch[kMostThreads / kWarp];
  const int64_t begin = blockIdx.x * kSquaresBlock;
  const int64_t end = begin + kSquaresBlock < n ? begin + kSquaresBlock : n;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const double v = g[i];
    sum += v * v;
  }
  sum = BlockSum(sum, scratch, Scratch::kFree);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block: the sum of the blocks' sums.
__global__ void __launch_bounds__(kMostThreads)
    JoinSquaresKernel(int64_t blocks, bool accumulate, double* out, const double* sums) {
  __shared__ double scratch[kMostThreads / kWarp];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += blockDim.x) sum += sums[i];
  sum = BlockSum(sum, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(out, sum, accumulate);
}

// *out = the sum of the sources in order, after *out unless they are the `first`; for the `last`,
// its root. It uses one warp, which reads ahead of the lane that adds.
__global__ void __launch_bounds__(kWarp)
    NormKernel(Sources<double> sources, bool first, bool last, double* out) {
  __shared__ double values[Sources<double>::kMost];
  for (int i = LaneIndex(); i < sources.count; i += kWarp) values[i] = *sources.at[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = first ? 0.0 : *out;
  for (int i = 0; i < sources.count; ++i) total += values[i];
  *out = last ? sqrt(total) : total;
}

// Index blockIdx.x of dimension n of g[outer, n, inner]: the sum over all others.
__global__ void __launch_bounds__(kThreads)
    LongRowsKernel(int64_t outer, int64_t n, int64_t inner, bool accumulate, double* out,
                   const float* g) {
  __shared__ double scratch[kMostThreads / kWarp];
  double sum = 0;
  for (int64_t o = 0; o < outer; ++o) {
    const float* row = g + (o * n + blockIdx.x) * inner;
    for (int64_t i = threadIdx.x; i < inner; i += kThreads) {
      const double v = row[i];
      sum += v * v;
    }
  }
  sum = BlockSum(sum, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(out + blockIdx.x, sum, accumulate);
}

// A thread an index: the sums over part blockIdx.y of the outer rows.
__global__ void __launch_bounds__(kThreads)
    ShortRowsKernel(int64_t outer, int64_t rows, int64_t n, int64_t inner, bool accumulate,
                    double* out, const float* g) {
  const int64_t j = blockIdx.x * kThreads + threadIdx.x, begin = blockIdx.y * rows;
  if (j >= n) return;
  const int64_t end = begin + rows < outer ? begin + rows : outer;
  double sum = 0;
#pragma unroll 4
  for (int64_t o = begin; o < end; ++o) {
    const float* row = g + (o * n + j) * inner;
    for (int64_t i = 0; i < inner; ++i) {
      const double v = row[i];
      sum += v * v;
    }
  }
  Put(out + blockIdx.y * n + j, sum, accumulate);
}

// A thread an index: the sum of its parts in order.
__global__ void __launch_bounds__(kThreads)
    JoinPartsKernel(int64_t parts, int64_t n, bool accumulate, double* out, const double* sums) {
  const int64_t j = blockIdx.x * kThreads + threadIdx.x;
  if (j >= n) return;
  double sum = 0;
  for (int64_t p = 0; p < parts; ++p) sum += sums[p * n + j];
  Put(out + j, sum, accumulate);
}

absl::StatusOr<Kernel> MakeSumSquaresApart(const KernelSetup& s, int dim) {
  RETURN_IF_ERROR(NeedF32(s, In(s, 0).dtype));
  const Dims& dims = In(s, 0).local();
  const int64_t n = dims[dim];
  const int64_t outer = Product(Dims(dims.begin(), dims.begin() + dim));
  const int64_t inner = Product(Dims(dims.begin() + dim + 1, dims.end()));
  const int64_t scratch = SumSquaresApartScratch(outer, n, inner);
  RETURN_IF_ERROR(NeedWorkspace(s, scratch));
  return Kernel([=](const KernelCall& call) -> absl::Status {
    if (n == 0) return absl::OkStatus();
    const float* g = call.input<float>(0);
    double* out = call.output<double>(0);
    if (inner >= kShortRow) {
      return Launch("sum_squares", &LongRowsKernel, {MakeGrid(n), dim3(kThreads)}, FindStream(call),
                    outer, n, inner, call.accumulate, out, g);
    }
    const auto threads = static_cast<unsigned>(DivideUp(n, kThreads));
    const auto parts = static_cast<unsigned>(scratch == 0 ? 1 : RowParts(outer));
    double* sums = scratch == 0 ? out : reinterpret_cast<double*>(call.workspace.data());
    RETURN_IF_ERROR(Launch("sum_squares", &ShortRowsKernel, {dim3(threads, parts), dim3(kThreads)},
                           FindStream(call), outer, scratch == 0 ? outer : RowsOfPart(outer), n,
                           inner, scratch == 0 && call.accumulate, sums, g));
    if (scratch == 0) return absl::OkStatus();
    return Launch("sum_squares", &JoinPartsKernel, {dim3(threads), dim3(kThreads)},
                  FindStream(call), parts, n, call.accumulate, out, sums);
  });
}

// One warp: it reads ahead of the lane that adds.
__global__ void __launch_bounds__(kWarp) SumInOrderKernel(int64_t n, double* out, const double* x) {
  __shared__ double values[kWarp];
  double total = 0;
  for (int64_t first = 0; first < n; first += kWarp) {
    if (first + threadIdx.x < n) values[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    const int64_t count = n - first < kWarp ? n - first : kWarp;
    for (int i = 0; threadIdx.x == 0 && i < count; ++i) total += values[i];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = total;
}

absl::StatusOr<Kernel> MakeSumInOrder(const KernelSetup& s) {
  return Kernel([n = Elements(In(s, 0))](const KernelCall& call) -> absl::Status {
    return Launch("sum_in_order", &SumInOrderKernel, {dim3(1), dim3(kWarp)}, FindStream(call), n,
                  call.output<double>(0), call.input<double>(0));
  });
}

absl::StatusOr<Kernel> MakeSumOfAllSquares(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, In(s, 0).dtype));
  const int64_t n = Elements(In(s, 0)), blocks = DivideUp(n, kSquaresBlock);
  RETURN_IF_ERROR(NeedWorkspace(s, SumSquaresScratch(n)));
  return Kernel([=](const KernelCall& call) -> absl::Status {
    double* sums = reinterpret_cast<double*>(call.workspace.data());
    if (n > 0) {
      RETURN_IF_ERROR(Launch("sum_squares", &SquaresKernel, {MakeGrid(blocks), dim3(kThreads)},
                             FindStream(call), n, sums, call.input<float>(0)));
    }
    return Launch("sum_squares", &JoinSquaresKernel, {dim3(1), dim3(kMostThreads)},
                  FindStream(call), blocks, call.accumulate, call.output<double>(0), sums);
  });
}

absl::StatusOr<Kernel> MakeSumSquares(const KernelSetup& s) {
  const auto dim = static_cast<int>(IntAttr(s, "dim", -1));
  return dim < 0 ? MakeSumOfAllSquares(s) : MakeSumSquaresApart(s, dim);
}

absl::StatusOr<Kernel> MakeGlobalNorm(const KernelSetup& s) {
  return Kernel([inputs = static_cast<int>(s.in.size())](const KernelCall& call) -> absl::Status {
    constexpr int kMost = Sources<double>::kMost;
    for (int first = 0; first == 0 || first < inputs; first += kMost) {
      Sources<double> sources;
      sources.count = std::min(inputs - first, kMost);
      for (int i = 0; i < sources.count; ++i) sources.at[i] = call.input<double>(first + i);
      RETURN_IF_ERROR(Launch("global_norm", &NormKernel, {dim3(1), dim3(kWarp)}, FindStream(call),
                             sources, first == 0, first + kMost >= inputs, call.output<double>(0)));
    }
    return absl::OkStatus();
  });
}

// AdamNumbers in f32, but for what depends on the norm.
struct AdamStep {
  float learning_rate, beta1, beta2, epsilon, decay, rest1, rest2, scale1, scale2;
  double clip;
};

AdamStep MakeStep(const KernelCall& call, bool decay) {
  const StepNumbers step = call.run->optimizer(call.run->first_step + call.firing);
  const AdamNumbers a = MakeAdamNumbers(step, decay, /*norm=*/0);
  return {.learning_rate = static_cast<float>(a.learning_rate),
          .beta1 = static_cast<float>(a.beta1),
          .beta2 = static_cast<float>(a.beta2),
          .epsilon = static_cast<float>(a.epsilon),
          .decay = static_cast<float>(a.decay),
          .rest1 = static_cast<float>(1.0 - a.beta1),
          .rest2 = static_cast<float>(1.0 - a.beta2),
          .scale1 = static_cast<float>(1.0 / a.correction1),
          .scale2 = static_cast<float>(1.0 / a.correction2),
          .clip = step.clip};
}

struct AdamState {
  float w, m, v;
};
__device__ inline AdamState Update(const AdamStep& a, float g, AdamState s) {
  s.m = s.m * a.beta1 + g * a.rest1;
  s.v = s.v * a.beta2 + g * g * a.rest2;
  const float step = s.m * a.scale1 / (sqrtf(s.v * a.scale2) + a.epsilon);
  s.w = s.w - (step + s.w * a.decay) * a.learning_rate;
  return s;
}

// Blocks that share the packs of a tensor: each computes the factor of clipping once, in f64.
constexpr int64_t kMostAdamBlocks = 2048;
constexpr int kAdamPack = PackSize<float>();

struct AdamValues {
  float *w, *m, *v;
};
struct AdamOld {
  const float *w, *m, *v;
};

// What a skipped step leaves: values that are not updated in place are the old ones.
__device__ inline void KeepOld(int64_t n, const AdamValues& out, const AdamOld& in) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = GlobalThread(); i < n; i += step) {
    if (out.w != in.w) out.w[i] = in.w[i];
    if (out.m != in.m) out.m[i] = in.m[i];
    if (out.v != in.v) out.v[i] = in.v[i];
  }
}

// An old value is in the place of the new one if it is updated in place. `norm` may be null: then
// nothing is clipped; so may `count`: then g is no sum over labels.
__global__ void __launch_bounds__(kThreads)
    AdamKernel(AdamStep a, int64_t n, AdamValues out, AdamOld in, const float* g,
               const double* norm, const double* count) {
  double scale = count == nullptr ? 1.0 : MeanFactor(*count);
  if (norm != nullptr) {
    if (!isfinite(*norm)) return KeepOld(n, out, in);
    scale *= ClipFactor(a.clip, *norm);
  }
  const float factor = static_cast<float>(scale);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * kAdamPack;
  for (int64_t begin = GlobalThread() * kAdamPack; begin < n; begin += step) {
    if (begin + kAdamPack <= n) {
      const auto grad = LoadPack<kAdamPack>(g + begin), old = LoadPack<kAdamPack>(in.w + begin);
      auto first = LoadPack<kAdamPack>(in.m + begin), second = LoadPack<kAdamPack>(in.v + begin);
      Floats<kAdamPack> next;
#pragma unroll
      for (int i = 0; i < kAdamPack; ++i) {
        const AdamState s = Update(a, grad.at[i] * factor, {old.at[i], first.at[i], second.at[i]});
        next.at[i] = s.w, first.at[i] = s.m, second.at[i] = s.v;
      }
      StorePack<kAdamPack>(out.w + begin, next);
      StorePack<kAdamPack>(out.m + begin, first);
      StorePack<kAdamPack>(out.v + begin, second);
    } else {
      for (int64_t i = begin; i < n; ++i) {
        const AdamState s = Update(a, g[i] * factor, {in.w[i], in.m[i], in.v[i]});
        out.w[i] = s.w, out.m[i] = s.m, out.v[i] = s.v;
      }
    }
  }
}

LaunchShape AdamShape(int64_t n) {
  const int64_t blocks = DivideUp(n, kThreads * kAdamPack);
  return {MakeGrid(std::min(blocks, kMostAdamBlocks)), dim3(kThreads)};
}

// The actor's inputs are g and, if it waits for it, norm, and if g is a sum over labels, their
// number; w, m, v are update registers, read and written in place, but for those that the attribute
// `apart` lists: their old values are the last inputs. If the norm is not finite, the step is
// skipped: values stay, the firing counts.
absl::StatusOr<Kernel> MakeAdamW(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  const int64_t n = Elements(s.out[0]);
  const bool counted = BoolAttr(s, "counted");
  const std::vector<int64_t> apart = IntsAttr(s, "apart");
  const int others = static_cast<int>(s.in.size() - apart.size()), count = others - 1;
  return Kernel([n, name = s.name, decay = BoolAttr(s, "decay"), counted, count, apart, others,
                 with_norm = count > (counted ? 1 : 0)](const KernelCall& call) -> absl::Status {
    if (!call.run->optimizer) return InputError(name, "this run was given no optimizer");
    if (n == 0) return absl::OkStatus();
    const AdamValues out{call.output<float>(0), call.output<float>(1), call.output<float>(2)};
    const float* old[] = {out.w, out.m, out.v};
    for (size_t i = 0; i < apart.size(); ++i) {
      old[apart[i]] = call.input<float>(others + static_cast<int>(i));
    }
    return Launch("adamw", &AdamKernel, AdamShape(n), FindStream(call), MakeStep(call, decay), n,
                  out, AdamOld{old[0], old[1], old[2]}, call.input<float>(0),
                  with_norm ? call.input<double>(1) : nullptr,
                  counted ? call.input<double>(count) : nullptr);
  });
}

// Writes the next version of w, from the newest (input 0) and g (input 1), which is divided by the
// number of labels (input 2) if there is one; m and v are updated in place.
absl::StatusOr<Kernel> MakeNextAdamW(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  const int64_t n = Elements(s.out[0]);
  return Kernel([n, name = s.name, decay = BoolAttr(s, "decay"),
                 counted = BoolAttr(s, "counted")](const KernelCall& call) -> absl::Status {
    if (!call.run->optimizer) return InputError(name, "this run was given no optimizer");
    if (n == 0) return absl::OkStatus();
    const AdamValues out{call.output<float>(2), call.output<float>(0), call.output<float>(1)};
    return Launch("next_adamw", &AdamKernel, AdamShape(n), FindStream(call), MakeStep(call, decay),
                  n, out, AdamOld{call.input<float>(0), out.m, out.v}, call.input<float>(1),
                  static_cast<const double*>(nullptr), counted ? call.input<double>(2) : nullptr);
  });
}

// A thread is an index: the sum of the sources in order, after that of `first` ones.
__global__ void __launch_bounds__(kThreads)
    AddCountsKernel(Sources<double> sources, bool first, int64_t n, double* out) {
  const int64_t at = GlobalThread();
  if (at >= n) return;
  double sum = first ? 0.0 : out[at];
  for (int i = 0; i < sources.count; ++i) sum += sources.at[i][at];
  out[at] = sum;
}

absl::StatusOr<Kernel> MakeAddCounts(const KernelSetup& s) {
  return Kernel([n = Elements(s.out[0]),
                 inputs = static_cast<int>(s.in.size())](const KernelCall& call) -> absl::Status {
    constexpr int kMost = Sources<double>::kMost;
    for (int first = 0; n > 0 && first < inputs; first += kMost) {
      Sources<double> sources;
      sources.count = std::min(inputs - first, kMost);
      for (int i = 0; i < sources.count; ++i) sources.at[i] = call.input<double>(first + i);
      RETURN_IF_ERROR(Launch("add_counts", &AddCountsKernel, ElementsShape(n), FindStream(call),
                             sources, first == 0, n, call.output<double>(0)));
    }
    return absl::OkStatus();
  });
}

// One block. Counts are whole numbers, so their sum is exact in any order. `norm` may be null, and
// `old` may be `bias`.
__global__ void __launch_bounds__(kThreads)
    EvenBiasKernel(int64_t experts, float rate, float* bias, const float* old, const double* counts,
                   const double* norm) {
  __shared__ double scratch[kMostThreads / kWarp];
  if (norm != nullptr && !isfinite(*norm)) return;
  double all = 0;
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) all += counts[e];
  all = BlockSum(all, scratch, Scratch::kFree);
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) {
    const double of = counts[e] * static_cast<double>(experts);
    bias[e] = old[e] + (of < all ? rate : of > all ? -rate : 0.0f);
  }
}

// The actor's inputs are the counts and, if it waits for it, the norm: a step that adamw skips
// leaves the bias, too. The bias is an update register.
absl::StatusOr<Kernel> MakeEvenBias(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  return Kernel([n = Elements(s.out[0]), rate = static_cast<float>(DoubleAttr(s, "rate")),
                 with_norm = s.in.size() > 1](const KernelCall& call) {
    float* bias = call.output<float>(0);
    return Launch("even_bias", &EvenBiasKernel, {dim3(1), dim3(kThreads)}, FindStream(call), n,
                  rate, bias, static_cast<const float*>(bias), call.input<double>(0),
                  with_norm ? call.input<double>(1) : nullptr);
  });
}

// Writes the next version of the bias, from the newest (input 0) and the counts (input 1).
absl::StatusOr<Kernel> MakeNextEvenBias(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  return Kernel([n = Elements(s.out[0]),
                 rate = static_cast<float>(DoubleAttr(s, "rate"))](const KernelCall& call) {
    return Launch("next_even_bias", &EvenBiasKernel, {dim3(1), dim3(kThreads)}, FindStream(call), n,
                  rate, call.output<float>(0), call.input<float>(0), call.input<double>(1),
                  static_cast<const double*>(nullptr));
  });
}

}  // namespace

KernelTable OptimizerTable() {
  return {{"adamw", MakeAdamW},
          {"add_counts", MakeAddCounts},
          {"even_bias", MakeEvenBias},
          {"global_norm", MakeGlobalNorm},
          {"next_adamw", MakeNextAdamW},
          {"next_even_bias", MakeNextEvenBias},
          {"sum_in_order", MakeSumInOrder},
          {"sum_squares", MakeSumSquares}};
}

}  // namespace oneflow::cuda
