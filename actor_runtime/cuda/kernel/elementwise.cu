// Element-wise kernels. A thread works on one pack: 16 bytes of the widest of its tensors.
#include <algorithm>
#include <string>

#include "actor_runtime/cuda/kernel/gated.cuh"
#include "actor_runtime/cuda/kernel/gelu.cuh"
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/map.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/soft_cap.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};
struct Times {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

absl::StatusOr<Kernel> MakeFill(const KernelSetup& s) {
  RETURN_IF_ERROR(NeedF32(s, s.out[0].dtype));
  const int64_t n = Elements(s.out[0]);
  const Constant constant{static_cast<float>(DoubleAttr(s, "value"))};
  return Kernel([=](const KernelCall& call) {
    return Map(call, "fill", constant, n, call.output<float>(0));
  });
}

// b may be narrower than the sum, or both may be narrow.
absl::StatusOr<Kernel> MakeAdd(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, In(s, 1).dtype, [&]<typename A, typename B>(A, B) {
    return Kernel([n](const KernelCall& call) {
      return Map(call, "add", Sum(), n, call.output<A>(0), call.input<A>(0), call.input<B>(1));
    });
  });
}

absl::StatusOr<Kernel> MakeMultiply(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  const Times times{static_cast<float>(DoubleAttr(s, "factor"))};
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) {
      return Map(call, "multiply", times, n, call.output<S>(0), call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeSoftCap(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  const SoftCap cap{static_cast<float>(DoubleAttr(s, "cap"))};
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) {
      return Map(call, "soft_cap", cap, n, call.output<S>(0), call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeSoftCapGrad(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  const SoftCapGrad grad{static_cast<float>(DoubleAttr(s, "cap"))};
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([=](const KernelCall& call) {
      return Map(call, "soft_cap_grad", grad, n, call.output<S>(0), call.input<S>(0),
                 call.input<S>(1));
    });
  });
}

absl::StatusOr<Kernel> MakeGelu(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([n](const KernelCall& call) {
      return Map(call, "gelu", Gelu(), n, call.output<S>(0), call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeGeluGrad(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([n](const KernelCall& call) {
      return Map(call, "gelu_grad", GeluGrad(), n, call.output<S>(0), call.input<S>(0),
                 call.input<S>(1));
    });
  });
}

// Both gradients in one pass.
template <typename A, typename S>
__global__ void __launch_bounds__(kThreads)
    GatedGradKernel(int64_t n, bool accumulate, S* dgate, S* dup, const S* dy, const S* gate,
                    const S* up) {
  constexpr int kSize = PackSize<S>();
  const int64_t begin = GlobalThread() * kSize;
  if (begin + kSize <= n) {
    const Floats<kSize> d = LoadPack<kSize>(dy + begin), g = LoadPack<kSize>(gate + begin);
    const Floats<kSize> u = LoadPack<kSize>(up + begin);
    Floats<kSize> of_gate, of_up;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const GatedGradient grad = GatedGrad<A>(d.at[i], g.at[i], u.at[i]);
      of_gate.at[i] = grad.gate;
      of_up.at[i] = grad.up;
    }
    PutPack<kSize>(dgate + begin, of_gate, accumulate);
    PutPack<kSize>(dup + begin, of_up, accumulate);
  } else {
    for (int64_t i = begin; i < n; ++i) {
      const GatedGradient grad = GatedGrad<A>(Wide(dy[i]), Wide(gate[i]), Wide(up[i]));
      Put(dgate + i, grad.gate, accumulate);
      Put(dup + i, grad.up, accumulate);
    }
  }
}

// make(A(), S()) for the activation and the type of a gated op.
template <typename Make>
absl::StatusOr<Kernel> ForActivation(const KernelSetup& s, Make make) {
  const std::string activation = StringAttr(s, "activation");
  return ForStoredAs(s, s.out[0].dtype, [&](auto stored) {
    if (activation == "gelu") return make(Gelu(), stored);
    return activation == "silu" ? make(Silu(), stored) : make(ClampedSilu(), stored);
  });
}

absl::StatusOr<Kernel> MakeGated(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  return ForActivation(s, [&]<typename A, typename S>(A, S) {
    return Kernel([n](const KernelCall& call) {
      return Map(call, "gated", Gated<A>(), n, call.output<S>(0), call.input<S>(0),
                 call.input<S>(1));
    });
  });
}

absl::StatusOr<Kernel> MakeGatedGrad(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  return ForActivation(s, [&]<typename A, typename S>(A, S) {
    return Kernel([n](const KernelCall& call) {
      if (n == 0) return absl::OkStatus();
      return Launch("gated_grad", &GatedGradKernel<A, S>, ElementsShape(n, PackSize<S>()),
                    FindStream(call), n, call.accumulate, call.output<S>(0), call.output<S>(1),
                    call.input<S>(0), call.input<S>(1), call.input<S>(2));
    });
  });
}

absl::StatusOr<Kernel> MakeCast(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  return ForStoredAs(s, In(s, 0).dtype, s.out[0].dtype, [&]<typename From, typename To>(From, To) {
    return Kernel([n](const KernelCall& call) {
      return Map(call, "cast", Same(), n, call.output<To>(0), call.input<From>(0));
    });
  });
}

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    AddBiasKernel(int64_t n, int64_t width, bool accumulate, S* y, const S* x, const float* bias) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  Floats<kSize> sum = LoadPack<kSize>(x + i);
#pragma unroll
  for (int j = 0; j < kSize; ++j) sum.at[j] += bias[i % width + j];
  PutPack<kSize>(y + i, sum, accumulate);
}

absl::StatusOr<Kernel> MakeAddBias(const KernelSetup& s) {
  const int64_t width = Elements(In(s, 1)), n = width == 0 ? 0 : Elements(s.out[0]);
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) {
    return ForPacks<PackSize<S>()>(width, [&]<int kSize>(Size<kSize>) {
      return Kernel([n, width](const KernelCall& call) {
        if (n == 0) return absl::OkStatus();
        return Launch("add_bias", &AddBiasKernel<kSize, S>, ElementsShape(n, kSize),
                      FindStream(call), n, width, call.accumulate, call.output<S>(0),
                      call.input<S>(0), call.input<float>(1));
      });
    });
  });
}

// y = the sum of the sources, in their order: after y, where `before` is set, and before it where
// `after` is.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    AddAllKernel(int64_t n, bool before, bool after, S* y, Sources<S> sources) {
  constexpr int kSize = PackSize<S>();
  const int64_t begin = GlobalThread() * kSize;
  if (begin + kSize <= n) {
    Floats<kSize> sum = LoadPack<kSize>((before ? y : sources.at[0]) + begin);
    for (int k = before ? 0 : 1; k < sources.count; ++k) {
      const Floats<kSize> term = LoadPack<kSize>(sources.at[k] + begin);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum.at[j] += term.at[j];
    }
    PutPack<kSize>(y + begin, sum, after);
  } else {
    for (int64_t i = begin; i < n; ++i) {
      float sum = Wide(before ? y[i] : sources.at[0][i]);
      for (int k = before ? 0 : 1; k < sources.count; ++k) sum += Wide(sources.at[k][i]);
      Put(y + i, sum, after);
    }
  }
}

// add_n and sum_uses, in input order. Wide sums may be interrupted, so they take any number of
// inputs; narrow ones are rounded once, so they are made by one launch.
absl::StatusOr<Kernel> MakeAddN(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  const int inputs = static_cast<int>(s.in.size());
  return ForStoredAs(s, s.out[0].dtype, [&]<typename S>(S) -> absl::StatusOr<Kernel> {
    constexpr bool kNarrow = std::is_same_v<S, Bf16>;
    if (kNarrow && inputs > Sources<S>::kMost) {
      return absl::UnimplementedError(s.name + ": a sum of more than " +
                                      std::to_string(Sources<S>::kMost) + " tensors of bf16");
    }
    return Kernel([n, inputs](const KernelCall& call) {
      constexpr int kMost = Sources<S>::kMost;
      if (n == 0) return absl::OkStatus();
      for (int first = 0; first < inputs; first += kMost) {
        Sources<S> sources;
        sources.count = std::min(inputs - first, kMost);
        for (int i = 0; i < sources.count; ++i) sources.at[i] = call.input<S>(first + i);
        RETURN_IF_ERROR(Launch("add_n", &AddAllKernel<S>, ElementsShape(n, PackSize<S>()),
                               FindStream(call), n, first > 0 || (call.accumulate && !kNarrow),
                               call.accumulate && kNarrow, call.output<S>(0), sources));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

KernelTable ElementwiseTable() {
  return {{"add", MakeAdd},
          {"add_bias", MakeAddBias},
          {"add_delta", MakeAdd},
          {"add_n", MakeAddN},
          {"cast", MakeCast},
          {"fill", MakeFill},
          {"gated", MakeGated},
          {"gated_grad", MakeGatedGrad},
          {"gelu", MakeGelu},
          {"gelu_grad", MakeGeluGrad},
          {"multiply", MakeMultiply},
          {"soft_cap", MakeSoftCap},
          {"soft_cap_grad", MakeSoftCapGrad},
          {"sum_uses", MakeAddN}};
}

}  // namespace oneflow::cuda
