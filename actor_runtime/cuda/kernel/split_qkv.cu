// Copies between a packed qkv, [b, t, 3, heads, d] or [b, t, g, r + 2, d], and queries, keys and
// values.
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/split_parts.cuh"
#include "actor_runtime/kernel/qkv_strides.h"

namespace oneflow::cuda {
namespace {

// Sizes of a local piece: positions of all samples, groups of r query heads, width of a head.
struct PackedLayout {
  int64_t positions, g, r, d;
  bool parts_first;
  int64_t elements() const { return positions * g * (r + 2) * d; }
  __device__ PartElement Find(int64_t i) const {
    const int64_t c = i % d, row = i / d, heads = g * (r + 2);
    const int64_t position = row / heads, head = row % heads;
    const int64_t group = parts_first ? head % g : head / (r + 2);
    const int64_t member = parts_first ? head / g : head % (r + 2);  // r: key, r + 1: value
    const int64_t of_group = position * g + group;
    if (member < r) return {0, (of_group * r + member) * d + c};
    return {member == r ? 1 : 2, of_group * d + c};
  }
};

PackedLayout FindLayout(const KernelSetup& s, const Dims& qkv) {
  const bool parts_first = BoolAttr(s, "parts_first");
  const QkvSizes n = PackedSizes(qkv, parts_first);
  return {n.b * n.t, n.g, n.r, n.d, parts_first};
}

absl::StatusOr<Kernel> MakeSplitQkv(const KernelSetup& setup) {
  return MakeSplitParts("split_qkv", setup, FindLayout(setup, In(setup, 0).local()));
}

absl::StatusOr<Kernel> MakeJoinQkv(const KernelSetup& setup) {
  return MakeJoinParts("join_qkv", setup, FindLayout(setup, setup.out[0].local()));
}

}  // namespace

KernelTable SplitQkvTable() { return {{"join_qkv", MakeJoinQkv}, {"split_qkv", MakeSplitQkv}}; }

}  // namespace oneflow::cuda
