// Which experts a token goes to, and its slots in their queues: a warp chooses for a token, then a
// warp looks through the choices of a run for those of an expert. The gradient counts them in the
// same way, if experts are balanced. Nothing depends on another run.
#include <cmath>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/label_count.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"
#include "oneflow_core/op/route_dims.h"

namespace oneflow::cuda {
namespace {

struct Router {
  bool sigmoid, normalized;
  float scale;
};

Router MakeRouter(const KernelSetup& s) {
  return {StringAttr(s, "scores") == "sigmoid", BoolAttr(s, "normalized"),
          static_cast<float>(DoubleAttr(s, "scale", 1))};
}

// Scores of one token, from its logits. All lanes of a warp make it together.
class Scores {
 public:
  __device__ Scores(bool sigmoid, const float* logits, int64_t experts)
      : sigmoid_(sigmoid), logits_(logits) {
    if (sigmoid) return;
    max_ = -INFINITY;
    for (int64_t e = LaneIndex(); e < experts; e += kWarp) max_ = Larger()(max_, logits[e]);
    max_ = WarpReduce(max_, Larger());
    sum_ = 0;
    for (int64_t e = LaneIndex(); e < experts; e += kWarp) sum_ += expf(logits[e] - max_);
    sum_ = WarpReduce(sum_, Plus());
  }
  __device__ float operator()(int64_t e) const {
    return sigmoid_ ? 1 / (1 + expf(-logits_[e])) : expf(logits_[e] - max_) / sum_;
  }
  __device__ float LogSumExp() const { return max_ + logf(sum_); }  // of softmax

 private:
  bool sigmoid_;
  const float* logits_;
  float max_ = 0, sum_ = 1;
};

// An expert, and by what it is chosen.
struct Candidate {
  float value;
  int expert;  // -1: none

  __device__ bool IsBefore(Candidate other) const {
    if (expert < 0 || other.expert < 0) return expert >= 0;
    return value > other.value || (value == other.value && expert < other.expert);
  }
};

// The best expert behind `last`; the first one if `last` is none.
template <typename Value>
__device__ inline Candidate FindNext(int experts, Candidate last, Value value) {
  Candidate best{0, -1};
  for (int e = LaneIndex(); e < experts; e += kWarp) {
    const float v = value(e);
    // What is not a number comes last.
    const Candidate candidate{isnan(v) ? -INFINITY : v, e};
    if (last.expert >= 0 && !last.IsBefore(candidate)) continue;
    if (candidate.IsBefore(best)) best = candidate;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, best.value, step),
                          __shfl_xor_sync(kAllLanes, best.expert, step)};
    if (other.IsBefore(best)) best = other;
  }
  return best;
}

// A warp is a token. Choice j is written by lane j % 32.
__global__ void __launch_bounds__(kThreads)
    ChooseKernel(Router router, int64_t tokens, int experts, int choices, float* w, int32_t* ids,
                 const float* logits, const float* bias) {
  const int64_t token = GlobalWarp();
  if (token >= tokens) return;
  logits += token * experts;
  w += token * choices;
  ids += token * choices;
  const Scores score(router.sigmoid, logits, experts);
  Candidate last{0, -1};
  float sum = kLeastScore;
  for (int j = 0; j < choices; ++j) {
    last = FindNext(experts, last,
                    [&](int e) { return bias == nullptr ? logits[e] : score(e) + bias[e]; });
    const float chosen = score(last.expert);
    sum += chosen;
    if (j % kWarp != LaneIndex()) continue;
    w[j] = chosen;
    ids[j] = last.expert;
  }
  for (int j = LaneIndex(); j < choices; j += kWarp) {
    w[j] = router.scale * (router.normalized ? w[j] / sum : w[j]);
  }
}

// The queues of runs of `choices` choices each.
struct QueueSizes {
  int64_t runs, choices, groups, of_group, slots;
};

// visit(i, the ids of choices i, i + 1, ...) by a warp: lanes in order, a pack each; -1 beyond the
// choices.
template <int kSize, typename Visit>
__device__ inline void ForChoices(const int32_t* ids, int64_t choices, Visit visit) {
  constexpr int64_t kStep = kWarp * kSize;
  for (int64_t first = 0; first < choices; first += kStep) {
    const int64_t i = first + LaneIndex() * kSize;
    Pack<int32_t, kSize> pack;
#pragma unroll
    for (int j = 0; j < kSize; ++j) pack.at[j] = -1;
    if (i < choices) pack = *reinterpret_cast<const Pack<int32_t, kSize>*>(ids + i);
    visit(i, pack);
  }
}

// A warp is an expert in a run. It counts the choices of experts before it in its group, and then
// gives slots to its own, in their order. Other choices of the run are written by other warps.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    QueueKernel(QueueSizes s, int32_t* slots, int32_t* offsets, const int32_t* ids) {
  const int64_t warp = GlobalWarp(), experts = s.groups * s.of_group;
  if (warp >= s.runs * experts) return;
  const int64_t run = warp / experts;
  const int expert = static_cast<int>(warp % experts), of_group = static_cast<int>(s.of_group);
  const int group = expert / of_group, first = group * of_group;
  ids += run * s.choices;
  slots += run * s.choices;
  int before = 0;
  ForChoices<kSize>(ids, s.choices, [&](int64_t, const Pack<int32_t, kSize>& pack) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) before += pack.at[j] >= first && pack.at[j] < expert;
  });
  int end = WarpReduce(before, Plus());
  const unsigned lower = (1u << LaneIndex()) - 1;
  ForChoices<kSize>(ids, s.choices, [&](int64_t i, const Pack<int32_t, kSize>& pack) {
    int slot = end;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const unsigned lanes = __ballot_sync(kAllLanes, pack.at[j] == expert);
      slot += __popc(lanes & lower);
      end += __popc(lanes);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      if (pack.at[j] != expert) continue;
      slots[i + j] = slot < s.slots ? slot : -1;
      ++slot;
    }
  });
  if (LaneIndex() != 0) return;
  offsets += (group * s.runs + run) * (s.of_group + 1) + (expert - first);
  const auto most = static_cast<int>(s.slots);
  if (expert == first) offsets[0] = 0;
  offsets[1] = end < most ? end : most;
}

absl::StatusOr<Kernel> MakeRoute(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, In(s, 0).dtype));
  const Dims &logits = In(s, 0).local(), &offsets = s.out[3].local();
  const RouteDims d = MakeRouteDims(logits[2], offsets[0], s.out[0].local()[2], IntAttr(s, "run"),
                                    logits[1], DoubleAttr(s, "capacity"));
  const int64_t tokens = logits[0] * logits[1];
  const QueueSizes sizes{logits[0] * offsets[2], d.run * d.choices, d.groups, d.of_group(),
                         d.slots};
  return ForPacks<4>(sizes.choices, [&](auto size) {
    return Kernel([=, router = MakeRouter(s),
                   biased = s.in.size() > 1](const KernelCall& call) -> absl::Status {
      if (tokens == 0) return absl::OkStatus();
      RETURN_IF_ERROR(Launch("route", &ChooseKernel, WarpsShape(tokens), FindStream(call), router,
                             tokens, static_cast<int>(d.experts), static_cast<int>(d.choices),
                             call.output<float>(0), call.output<int32_t>(1), call.input<float>(0),
                             biased ? call.input<float>(1) : nullptr));
      return Launch("route_queues", &QueueKernel<decltype(size)::value>,
                    WarpsShape(sizes.runs * d.experts), FindStream(call), sizes,
                    call.output<int32_t>(2), call.output<int32_t>(3),
                    static_cast<const int32_t*>(call.output<int32_t>(1)));
    });
  });
}

// A warp is an expert in a run, whose choices it counts.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    CountKernel(int64_t runs, int64_t experts, int64_t choices_of_run, int32_t* counts,
                const int32_t* ids) {
  const int64_t warp = GlobalWarp();
  if (warp >= runs * experts) return;
  const auto expert = static_cast<int>(warp % experts);
  int count = 0;
  ForChoices<kSize>(ids + warp / experts * choices_of_run, choices_of_run,
                    [&](int64_t, const Pack<int32_t, kSize>& pack) {
#pragma unroll
                      for (int j = 0; j < kSize; ++j) count += pack.at[j] == expert;
                    });
  count = WarpReduce(count, Plus());
  if (LaneIndex() == 0) counts[warp] = count;
}

// The two losses of a router (route.cc of the ops), as factors of what a token of a run gets.
struct Losses {
  int64_t run;
  float balance;  // of f_e, in choices: E / (k t²)
  float z;        // of log Σ exp(logit): 2 / t
};

Losses MakeLosses(const KernelSetup& s, int64_t run, int64_t experts, int64_t choices) {
  const double all = DoubleAttr(s, "loss_scale", 1), length = static_cast<double>(run);
  const double even = static_cast<double>(experts) / (static_cast<double>(choices) * length);
  return {run, static_cast<float>(all * DoubleAttr(s, "balance") * even / length),
          static_cast<float>(all * DoubleAttr(s, "z") * 2 / length)};
}

// A warp is a token. With scores s, their sum S over the chosen, and g = scale dw: of a normalized
// weight s_j / S, ds_j = (g_j - Σ g s / S) / S, else ds_j = g_j. A sigmoid's slope is s (1 - s); a
// softmax's dl_i = s_i (ds_i - Σ ds s), and if it is normalized the sum is zero. The balance adds
// that of all experts' s_e / Σ s, normalized, with their counts as g. `counts`: of each expert in
// each run, or null, without a balance. `labels`: by how many the gradient will be divided, or
// null.
__global__ void __launch_bounds__(kThreads)
    RouteGradKernel(Router router, Losses losses, int64_t tokens, int experts, int choices,
                    float* dlogits, const float* logits, const int32_t* ids, const float* dw,
                    const int32_t* counts, const double* labels) {
  const int64_t token = GlobalWarp();
  if (token >= tokens) return;
  logits += token * experts;
  dlogits += token * experts;
  ids += token * choices;
  dw += token * choices;
  if (labels != nullptr) {
    losses.balance = static_cast<float>(losses.balance * Divisor(*labels));
    losses.z = static_cast<float>(losses.z * Divisor(*labels));
  }
  const Scores score(router.sigmoid, logits, experts);
  float sum = kLeastScore, dot = 0;
  for (int j = 0; j < choices; ++j) {
    if (ids[j] < 0 || ids[j] >= experts) continue;
    const float of = score(ids[j]);
    sum += of;
    dot += of * dw[j];
  }
  float all = 0, mean = 0;  // of all experts' scores, and of counts by these
  if (counts != nullptr) {
    counts += token / losses.run * experts;
    for (int e = LaneIndex(); e < experts; e += kWarp) {
      const float of = score(e);
      all += of;
      mean += of * static_cast<float>(counts[e]);
    }
    all = WarpReduce(all, Plus()) + static_cast<float>(kLeastScore);
    mean = WarpReduce(mean, Plus()) / all;
  }
  for (int e = LaneIndex(); e < experts; e += kWarp) {
    const float of = score(e), slope = of * (router.sigmoid ? 1 - of : 1);
    float dl = router.sigmoid || router.normalized ? 0 : -router.scale * dot * of;
    for (int j = 0; j < choices; ++j) {
      if (ids[j] != e) continue;
      const float ds = router.normalized ? (dw[j] - dot / sum) / sum : dw[j];
      dl += router.scale * ds * slope;
    }
    if (counts != nullptr) {
      dl += losses.balance * (static_cast<float>(counts[e]) - mean) / all * slope;
    }
    dlogits[e] = dl;
  }
  if (losses.z == 0) return;
  const Scores softmax(/*sigmoid=*/false, logits, experts);
  const float factor = losses.z * softmax.LogSumExp();
  for (int e = LaneIndex(); e < experts; e += kWarp) dlogits[e] += factor * softmax(e);
}

absl::StatusOr<Kernel> MakeRouteGrad(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, In(s, 0).dtype));
  const Dims& logits = In(s, 0).local();
  const int64_t tokens = logits[0] * logits[1], experts = logits[2];
  const int64_t choices = In(s, 1).local()[2];
  const int64_t run = IntAttr(s, "run") > 0 ? IntAttr(s, "run") : logits[1];
  const int64_t runs = run > 0 ? tokens / run : 0;
  const bool balanced = DoubleAttr(s, "balance") > 0;
  if (balanced) RETURN_IF_ERROR(NeedWorkspace(s, RouteGradScratch(runs, experts)));
  return ForPacks<4>(run * choices, [&](auto size) {
    return Kernel([=, router = MakeRouter(s), losses = MakeLosses(s, run, experts, choices),
                   counted = s.in.size() > 3](const KernelCall& call) -> absl::Status {
      if (tokens == 0) return absl::OkStatus();
      const int32_t* ids = call.input<int32_t>(1);
      int32_t* counts = balanced ? reinterpret_cast<int32_t*>(call.workspace.data()) : nullptr;
      if (balanced) {
        RETURN_IF_ERROR(Launch("route_counts", &CountKernel<decltype(size)::value>,
                               WarpsShape(runs * experts), FindStream(call), runs, experts,
                               run * choices, counts, ids));
      }
      return Launch("route_grad", &RouteGradKernel, WarpsShape(tokens), FindStream(call), router,
                    losses, tokens, static_cast<int>(experts), static_cast<int>(choices),
                    call.output<float>(0), call.input<float>(0), ids, call.input<float>(2),
                    static_cast<const int32_t*>(counts), counted ? call.input<double>(3) : nullptr);
    });
  });
}

// A warp is an expert in a piece of all choices, which it counts; the one behind the last expert
// counts choices without a slot.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    CountChoicesKernel(int64_t choices, int64_t pieces, int64_t experts, int32_t* counts,
                       const int32_t* ids, const int32_t* slots) {
  const int64_t warp = GlobalWarp();
  if (warp >= pieces * (experts + 1)) return;
  const int64_t first = warp / (experts + 1) * kChoicesOfPiece;
  const int64_t n = choices - first < kChoicesOfPiece ? choices - first : kChoicesOfPiece;
  const auto expert = static_cast<int>(warp % (experts + 1));
  const bool dropped = expert == experts;
  int count = 0;
  ForChoices<kSize>((dropped ? slots : ids) + first, n,
                    [&](int64_t i, const Pack<int32_t, kSize>& pack) {
                      if (i >= n) return;
#pragma unroll
                      for (int j = 0; j < kSize; ++j) {
                        count += dropped ? pack.at[j] < 0 : pack.at[j] == expert;
                      }
                    });
  count = WarpReduce(count, Plus());
  if (LaneIndex() == 0) counts[warp] = count;
}

// A thread is a number of the output.
__global__ void __launch_bounds__(kThreads)
    JoinCountsKernel(int64_t pieces, int64_t numbers, bool accumulate, double* out,
                     const int32_t* counts) {
  const int64_t at = GlobalThread();
  if (at >= numbers) return;
  int64_t sum = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) sum += counts[piece * numbers + at];
  Put(out + at, static_cast<double>(sum), accumulate);
}

absl::StatusOr<Kernel> MakeCountChoices(const KernelSetup& s) {
  const int64_t choices = Elements(In(s, 0)), numbers = Elements(s.out[0]);
  const int64_t pieces = DivideUp(choices, kChoicesOfPiece);
  RETURN_IF_ERROR(NeedWorkspace(s, CountChoicesScratch(choices, numbers - 1)));
  return ForPacks<4>(choices, [&](auto size) {
    return Kernel([=](const KernelCall& call) -> absl::Status {
      auto* counts = reinterpret_cast<int32_t*>(call.workspace.data());
      if (choices > 0) {
        RETURN_IF_ERROR(Launch("count_choices", &CountChoicesKernel<decltype(size)::value>,
                               WarpsShape(pieces * numbers), FindStream(call), choices, pieces,
                               numbers - 1, counts, call.input<int32_t>(0),
                               call.input<int32_t>(1)));
      }
      return Launch("join_counts", &JoinCountsKernel, ElementsShape(numbers), FindStream(call),
                    pieces, numbers, call.accumulate, call.output<double>(0),
                    static_cast<const int32_t*>(counts));
    });
  });
}

}  // namespace

KernelTable RouteTable() {
  return {{"count_choices", MakeCountChoices}, {"route", MakeRoute}, {"route_grad", MakeRouteGrad}};
}

}  // namespace oneflow::cuda
