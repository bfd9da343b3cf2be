// Copies between a packed qkv, [b, t, 3, heads, d] or [b, t, g, r + 2, d], and queries, keys and
// values. A thread copies a pack.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/qkv_strides.h"

namespace oneflow::cuda {
namespace {

// Sizes of a local piece: positions of all samples, groups of r query heads, width of a head.
struct PackedLayout {
  int64_t positions, g, r, d;
  bool parts_first;
  int64_t elements() const { return positions * g * (r + 2) * d; }
};

PackedLayout FindLayout(const KernelSetup& s, const Dims& qkv) {
  const bool parts_first = BoolAttr(s, "parts_first");
  const QkvSizes n = PackedSizes(qkv, parts_first);
  return {n.b * n.t, n.g, n.r, n.d, parts_first};
}

// Queries, keys and values.
template <typename S>
struct QkvParts {
  S *q, *k, *v;
  // By index: an array of arguments would be copied to the stack.
  __device__ S* at(int part) const { return part == 0 ? q : part == 1 ? k : v; }
};

// Element `i` of qkv is element `at` of its part.
struct PartElement {
  int part;
  int64_t at;
};
__device__ inline PartElement FindElement(const PackedLayout& s, int64_t i) {
  const int64_t c = i % s.d, row = i / s.d, heads = s.g * (s.r + 2);
  const int64_t position = row / heads, head = row % heads;
  const int64_t group = s.parts_first ? head % s.g : head / (s.r + 2);
  const int64_t member = s.parts_first ? head / s.g : head % (s.r + 2);  // r: key, r + 1: value
  const int64_t of_group = position * s.g + group;
  if (member < s.r) return {0, (of_group * s.r + member) * s.d + c};
  return {member == s.r ? 1 : 2, of_group * s.d + c};
}

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    SplitQkvKernel(PackedLayout s, int64_t n, bool accumulate, QkvParts<S> parts, const S* qkv) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  const PartElement element = FindElement(s, i);
  PutPack<kSize>(parts.at(element.part) + element.at, LoadPack<kSize>(qkv + i), accumulate);
}

template <int kSize, typename S>
__global__ void __launch_bounds__(kThreads)
    JoinQkvKernel(PackedLayout s, int64_t n, bool accumulate, S* qkv, QkvParts<const S> parts) {
  const int64_t i = GlobalThread() * kSize;
  if (i >= n) return;
  const PartElement element = FindElement(s, i);
  PutPack<kSize>(qkv + i, LoadPack<kSize>(parts.at(element.part) + element.at), accumulate);
}

absl::StatusOr<Kernel> MakeSplitQkv(const KernelSetup& setup) {
  const PackedLayout s = FindLayout(setup, In(setup, 0).local());
  return ForStoredAs(setup, setup.out[0].dtype, [&](auto stored) {
    using S = decltype(stored);
    return ForPacks<PackSize<S>()>(s.d, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      return Kernel([s](const KernelCall& call) {
        const int64_t n = s.elements();
        if (n == 0) return absl::OkStatus();
        const QkvParts<S> parts{call.output<S>(0), call.output<S>(1), call.output<S>(2)};
        return Launch("split_qkv", &SplitQkvKernel<kSize, S>, ElementsShape(DivideUp(n, kSize)),
                      FindStream(call), s, n, call.accumulate, parts, call.input<S>(0));
      });
    });
  });
}

absl::StatusOr<Kernel> MakeJoinQkv(const KernelSetup& setup) {
  const PackedLayout s = FindLayout(setup, setup.out[0].local());
  return ForStoredAs(setup, setup.out[0].dtype, [&](auto stored) {
    using S = decltype(stored);
    return ForPacks<PackSize<S>()>(s.d, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      return Kernel([s](const KernelCall& call) {
        const int64_t n = s.elements();
        if (n == 0) return absl::OkStatus();
        const QkvParts<const S> parts{call.input<S>(0), call.input<S>(1), call.input<S>(2)};
        return Launch("join_qkv", &JoinQkvKernel<kSize, S>, ElementsShape(DivideUp(n, kSize)),
                      FindStream(call), s, n, call.accumulate, call.output<S>(0), parts);
      });
    });
  });
}

}  // namespace

KernelTable SplitQkvTable() {
  static constexpr KernelEntry kTable[] = {
      {"join_qkv", MakeJoinQkv},
      {"split_qkv", MakeSplitQkv},
  };
  return kTable;
}

}  // namespace oneflow::cuda
