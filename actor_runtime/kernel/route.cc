// Which experts a token goes to, and its slots in their queues. A task is one run of a sequence:
// nothing depends on another.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/label_count.h"
#include "actor_runtime/kernel/support.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/route_dims.h"

namespace oneflow {
namespace {

// Scores of one token, from its logits.
template <typename T>
class Scores {
 public:
  Scores(bool sigmoid, const T* logits, int64_t experts) : sigmoid_(sigmoid), logits_(logits) {
    if (sigmoid) return;
    max_ = *std::max_element(logits, logits + experts);
    sum_ = 0;
    for (int64_t e = 0; e < experts; ++e) sum_ += std::exp(logits[e] - max_);
  }
  T operator()(int64_t e) const {
    return sigmoid_ ? 1 / (1 + std::exp(-logits_[e])) : std::exp(logits_[e] - max_) / sum_;
  }
  T LogSumExp() const { return max_ + std::log(sum_); }  // of softmax

 private:
  bool sigmoid_;
  const T* logits_;
  T max_ = 0, sum_ = 1;
};

struct Router {
  bool sigmoid, normalized;
  double scale, balance, z;  // the losses' with their scale
};

Router MakeRouter(const KernelSetup& s) {
  const double losses = DoubleAttr(s, "loss_scale", 1);
  return {StringAttr(s, "scores") == "sigmoid", BoolAttr(s, "normalized"),
          DoubleAttr(s, "scale", 1), losses * DoubleAttr(s, "balance"),
          losses * DoubleAttr(s, "z")};
}

// The best experts in order, each once, whatever the values; of equals the lower one. A value that
// is not a number comes last.
template <typename T, typename Value>
void Choose(int64_t experts, int64_t choices, Value value, int32_t* ids) {
  const auto number = [&](int64_t e) {
    const T v = value(e);
    return std::isnan(v) ? -std::numeric_limits<T>::infinity() : v;
  };
  T last = 0;
  for (int64_t j = 0; j < choices; ++j) {
    int64_t best = -1;
    T most = 0;
    for (int64_t e = 0; e < experts; ++e) {
      const T v = number(e);
      const bool behind = j == 0 || v < last || (v == last && e > ids[j - 1]);
      if (behind && (best < 0 || v > most)) best = e, most = v;
    }
    ids[j] = static_cast<int32_t>(best);
    last = most;
  }
}

// The queues of one run: `ids` and `slots` of its choices in order, `offsets` of its first group,
// those of the next `stride` behind.
void Queue(const int32_t* ids, int64_t choices, int64_t slots_of_group, int64_t groups,
           int64_t of_group, int64_t stride, int32_t* slots, int32_t* offsets) {
  const auto ends = [&](int64_t g) { return offsets + g * stride; };
  const auto end = [&](int32_t e) -> int32_t& { return ends(e / of_group)[e % of_group]; };
  for (int64_t g = 0; g < groups; ++g) std::fill_n(ends(g), of_group + 1, 0);
  for (int64_t i = 0; i < choices; ++i) ++end(ids[i]);
  for (int64_t g = 0; g < groups; ++g) {
    int32_t begin = 0;
    for (int64_t e = 0; e < of_group; ++e) begin += std::exchange(ends(g)[e], begin);
  }
  // What began at an expert's first slot ends behind its last.
  for (int64_t i = 0; i < choices; ++i) {
    const int32_t slot = end(ids[i])++;
    slots[i] = slot < slots_of_group ? slot : -1;
  }
  for (int64_t g = 0; g < groups; ++g) {
    std::copy_backward(ends(g), ends(g) + of_group, ends(g) + of_group + 1);
    ends(g)[0] = 0;
    for (int64_t e = 1; e <= of_group; ++e) {
      ends(g)[e] = std::min(ends(g)[e], static_cast<int32_t>(slots_of_group));
    }
  }
}

absl::StatusOr<Kernel> MakeRoute(const KernelSetup& s) {
  const Dims &logits = In(s, 0).local(), &offsets = s.out[3].local();
  const int64_t experts = logits[2], choices = s.out[0].local()[2];
  const RouteDims d = MakeRouteDims(experts, offsets[0], choices, IntAttr(s, "run"), logits[1],
                                    DoubleAttr(s, "capacity"));
  return ForFloats(s, In(s, 0).dtype, [&]<typename T>(T) -> Kernel {
    return [d, router = MakeRouter(s), biased = s.in.size() > 1,
            runs = logits[0] * offsets[2]](const KernelCall& call) {
      call.pool->ParallelFor(static_cast<int>(runs), [&](int run, int) {
        const int64_t first = run * d.run;
        int32_t* ids = call.output<int32_t>(1) + first * d.choices;
        for (int64_t i = 0; i < d.run; ++i) {
          const T* l = call.input<T>(0) + (first + i) * d.experts;
          T* w = call.output<T>(0) + (first + i) * d.choices;
          int32_t* chosen = ids + i * d.choices;
          const Scores<T> score(router.sigmoid, l, d.experts);
          if (biased) {
            const T* bias = call.input<T>(1);
            Choose<T>(
                d.experts, d.choices, [&](int64_t e) { return score(e) + bias[e]; }, chosen);
          } else {
            Choose<T>(
                d.experts, d.choices, [&](int64_t e) { return l[e]; }, chosen);
          }
          T sum = kLeastScore;
          for (int64_t j = 0; j < d.choices; ++j) sum += w[j] = score(chosen[j]);
          for (int64_t j = 0; j < d.choices; ++j) {
            w[j] = static_cast<T>(router.scale) * (router.normalized ? w[j] / sum : w[j]);
          }
        }
        Queue(ids, d.run * d.choices, d.slots, d.groups, d.of_group(), runs * (d.of_group() + 1),
              call.output<int32_t>(2) + first * d.choices,
              call.output<int32_t>(3) + run * (d.of_group() + 1));
      });
      return absl::OkStatus();
    };
  });
}

// Of the weights of one token's choices. With scores s, their sum S over the chosen, and g = scale
// dw: of a normalized weight s_j / S, ds_j = (g_j - Σ g s / S) / S, else ds_j = g_j. A sigmoid's
// slope is s (1 - s); a softmax's dl_i = s_i (ds_i - Σ ds s), and if it is normalized the sum is 0.
template <typename T>
void WeightsGrad(const Router& router, const Scores<T>& score, const int32_t* chosen, const T* dw,
                 int64_t experts, int64_t choices, T* dl) {
  T sum = kLeastScore, dot = 0;
  for (int64_t j = 0; j < choices; ++j) {
    const T of = score(chosen[j]);
    sum += of, dot += of * dw[j];
  }
  const auto scale = static_cast<T>(router.scale);
  if (router.sigmoid || router.normalized) {
    std::fill_n(dl, experts, T(0));
  } else {
    for (int64_t e = 0; e < experts; ++e) dl[e] = -scale * dot * score(e);
  }
  for (int64_t j = 0; j < choices; ++j) {
    const T of = score(chosen[j]);
    const T ds = router.normalized ? (dw[j] - dot / sum) / sum : dw[j];
    dl[chosen[j]] += scale * ds * of * (router.sigmoid ? 1 - of : T(1));
  }
}

// Adds what one token of a run of `length` gets of its balance: with f as route.cc of the ops says,
// dp_e = f_e / length, p_e = s_e / Σ s.
template <typename T>
void AddBalanceGrad(const Router& router, const Scores<T>& score, const int64_t* counts,
                    int64_t experts, int64_t choices, int64_t length, T* dl) {
  const T even = static_cast<T>(router.balance) * static_cast<T>(experts) /
                 (static_cast<T>(choices) * static_cast<T>(length) * static_cast<T>(length));
  T sum = kLeastScore, dot = 0;
  for (int64_t e = 0; e < experts; ++e) {
    sum += score(e), dot += score(e) * static_cast<T>(counts[e]);
  }
  for (int64_t e = 0; e < experts; ++e) {
    const T of = score(e);
    const T ds = (static_cast<T>(counts[e]) - dot / sum) / sum;
    dl[e] += even * ds * of * (router.sigmoid ? 1 - of : T(1));
  }
}

template <typename T>
void AddZGrad(const Router& router, const T* logits, int64_t experts, int64_t length, T* dl) {
  const Scores<T> softmax(/*sigmoid=*/false, logits, experts);
  const T factor = static_cast<T>(router.z) * 2 * softmax.LogSumExp() / static_cast<T>(length);
  for (int64_t e = 0; e < experts; ++e) dl[e] += factor * softmax(e);
}

absl::StatusOr<Kernel> MakeRouteGrad(const KernelSetup& s) {
  const Dims &logits = In(s, 0).local(), &ids = In(s, 1).local();
  const int64_t experts = logits[2], choices = ids[2];
  const int64_t run = IntAttr(s, "run") > 0 ? IntAttr(s, "run") : logits[1];
  RETURN_IF_ERROR(NeedWorkspace(s, s.threads * experts * static_cast<int64_t>(sizeof(int64_t))));
  return ForFloats(s, In(s, 0).dtype, [&]<typename T>(T) -> Kernel {
    return [=, plain = MakeRouter(s), counted = s.in.size() > 3,
            runs = run > 0 ? logits[0] * logits[1] / run : 0](const KernelCall& call) {
      Router router = plain;
      if (counted) {
        const double count = *call.input<double>(3);
        router.balance *= Divisor(count), router.z *= Divisor(count);
      }
      call.pool->ParallelFor(static_cast<int>(runs), [&](int at, int thread) {
        const int64_t first = at * run;
        const int32_t* chosen = call.input<int32_t>(1) + first * choices;
        int64_t* counts = reinterpret_cast<int64_t*>(call.workspace.data()) + thread * experts;
        std::fill_n(counts, experts, 0);
        for (int64_t i = 0; i < run * choices; ++i) ++counts[chosen[i]];
        for (int64_t i = 0; i < run; ++i) {
          const T* l = call.input<T>(0) + (first + i) * experts;
          T* dl = call.output<T>(0) + (first + i) * experts;
          const Scores<T> score(router.sigmoid, l, experts);
          WeightsGrad(router, score, chosen + i * choices, call.input<T>(2) + (first + i) * choices,
                      experts, choices, dl);
          if (router.balance > 0) {
            AddBalanceGrad(router, score, counts, experts, choices, run, dl);
          }
          if (router.z > 0) AddZGrad(router, l, experts, run, dl);
        }
      });
      return absl::OkStatus();
    };
  });
}

absl::StatusOr<Kernel> MakeCountChoices(const KernelSetup& s) {
  return Kernel(
      [choices = Elements(In(s, 0)), experts = Elements(s.out[0]) - 1](const KernelCall& call) {
        const int32_t *ids = call.input<int32_t>(0), *slots = call.input<int32_t>(1);
        double* counts = call.output<double>(0);
        if (!call.accumulate) std::fill_n(counts, experts + 1, 0.0);
        for (int64_t i = 0; i < choices; ++i) {
          if (ids[i] >= 0 && ids[i] < experts) counts[ids[i]] += 1;
        }
        counts[experts] += static_cast<double>(
            std::count_if(slots, slots + choices, [](int32_t slot) { return slot < 0; }));
        return absl::OkStatus();
      });
}

}  // namespace

KernelTable RouteTable() {
  return {{"count_choices", MakeCountChoices}, {"route", MakeRoute}, {"route_grad", MakeRouteGrad}};
}

}  // namespace oneflow
