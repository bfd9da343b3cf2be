// slice and zero_fill: the regions that the CPU's kernels copy (copy_slices.h), each by one launch,
// in words of up to 16 bytes unless it accumulates.
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "actor_runtime/kernel/copy_slices.h"

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

enum Fill { kNothing = 0, kZero = 1, kLowest = 2, kKeep = 3 };
constexpr int kMaximum = 2;  // of KernelSetup::reduce

template <typename S>
__global__ void __launch_bounds__(kThreads) FillKernel(int64_t n, S value, S* y) {
  const int64_t i = GlobalThread();
  if (i < n) y[i] = value;
}

// Rows of `run` elements at the strides of a region.
struct Box {
  int64_t from = 0, to = 0, run = 0, elements = 0;
  RowStrides strides;
};

template <typename U>
__global__ void __launch_bounds__(kThreads) CopyKernel(Box box, const U* from, U* to) {
  const int64_t i = GlobalThread();
  if (i >= box.elements) return;
  const RowOffsets row = FindOffsets(box.strides, i / box.run);
  to[box.to + row.to + i % box.run] = from[box.from + row.from + i % box.run];
}

// Sums the sources first, in their order, then the old output: the order of separate actors. The
// result is rounded once.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    ReduceKernel(Box box, Sources<S> sources, bool maximum, bool accumulate, S* to) {
  const int64_t i = GlobalThread();
  if (i >= box.elements) return;
  const RowOffsets row = FindOffsets(box.strides, i / box.run);
  const int64_t from = box.from + row.from + i % box.run;
  auto value = Wide(sources.at[0][from]);
  for (int j = 1; j < sources.count; ++j) {
    const auto next = Wide(sources.at[j][from]);
    value = maximum ? Larger()(next, value) : static_cast<decltype(value)>(value + next);
  }
  Put(to + box.to + row.to + i % box.run, value, accumulate);
}

// The work of a launch.
struct Part {
  Box box;    // in elements
  Box units;  // of unit_bytes
  int unit_bytes = 1;
  std::vector<int> sources;
};

Box Divide(Box box, int64_t by) {
  for (int i = 0; i < box.strides.dims; ++i) {
    box.strides.from[i] /= by;
    box.strides.to[i] /= by;
  }
  box.from /= by, box.to /= by, box.run /= by, box.elements /= by;
  return box;
}

absl::StatusOr<Part> MakePart(const KernelSetup& s, const CopyRegion& region) {
  const int64_t bytes = static_cast<int64_t>(ElementBytes(s.out[0].dtype));
  if (region.count.size() > RowStrides::kMost || region.sources.size() > Sources<float>::kMost) {
    return absl::UnimplementedError(s.name + ": a copy of more than " +
                                    std::to_string(RowStrides::kMost) + " dimensions or " +
                                    std::to_string(Sources<float>::kMost) + " sources");
  }
  Part part{.sources = region.sources};
  Box& box = part.box;
  box.from = region.from, box.to = region.to, box.run = region.run;
  box.elements = region.run * region.rows;
  box.strides.dims = static_cast<int>(region.count.size());
  int64_t step = std::gcd(std::gcd(region.from, region.to), region.run);
  for (int i = 0; i < box.strides.dims; ++i) {
    box.strides.count[i] = region.count[i];
    box.strides.from[i] = region.from_stride[i];
    box.strides.to[i] = region.to_stride[i];
    step = std::gcd(step, std::gcd(region.from_stride[i], region.to_stride[i]));
  }
  part.unit_bytes = static_cast<int>(std::gcd(step * bytes, int64_t{16}));
  part.units = Divide(box, part.unit_bytes / bytes);
  return part;
}

template <typename U>
absl::Status CopyUnits(const KernelCall& call, const Part& part) {
  return Launch("copy_slices", &CopyKernel<U>, ElementsShape(part.units.elements), FindStream(call),
                part.units, reinterpret_cast<const U*>(call.in[0][part.sources[0]]),
                reinterpret_cast<U*>(call.out[0]));
}

absl::Status Copy(const KernelCall& call, const Part& part) {
  switch (part.unit_bytes) {
    case 16: return CopyUnits<Pack<uint32_t, 4>>(call, part);
    case 8: return CopyUnits<uint64_t>(call, part);
    case 4: return CopyUnits<uint32_t>(call, part);
    case 2: return CopyUnits<uint16_t>(call, part);
    default: return CopyUnits<uint8_t>(call, part);
  }
}

template <typename S>
absl::Status Reduce(const KernelCall& call, const Part& part, bool maximum) {
  Sources<S> sources;
  sources.count = static_cast<int>(part.sources.size());
  for (int i = 0; i < sources.count; ++i) {
    sources.at[i] = reinterpret_cast<const S*>(call.in[0][part.sources[i]]);
  }
  return Launch("copy_slices", &ReduceKernel<S>, ElementsShape(part.box.elements), FindStream(call),
                part.box, sources, maximum, call.accumulate, call.output<S>(0));
}

template <typename S>
S LowestValue() {
  if constexpr (std::is_same_v<S, Bf16>) {
    return ToBf16(-std::numeric_limits<float>::infinity());
  } else if constexpr (std::is_floating_point_v<S>) {
    return -std::numeric_limits<S>::infinity();
  } else {
    return std::numeric_limits<S>::lowest();
  }
}

template <typename S>
absl::Status FillAll(const KernelCall& call, int64_t n, bool lowest) {
  if (n == 0) return absl::OkStatus();
  return Launch("copy_slices", &FillKernel<S>, ElementsShape(n), FindStream(call), n,
                lowest ? LowestValue<S>() : S{}, call.output<S>(0));
}

// fn(S()) for elements that are stored as S.
template <typename Fn>
auto ForElements(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kF32: return fn(float());
    case DType::kF64: return fn(double());
    case DType::kI32: return fn(int32_t());
    case DType::kBF16: return fn(Bf16());
    case DType::kU8: break;
  }
  return fn(uint8_t());
}

absl::StatusOr<Kernel> MakeCopySlices(const KernelSetup& s) {
  const int64_t n = Elements(s.out[0]);
  for (int axis : s.zero_unless_first) {
    if (s.coordinate[axis] == 0) continue;
    return ForElements(s.out[0].dtype, [n]<typename S>(S) {
      return Kernel([n](const KernelCall& call) {
        return call.accumulate ? absl::OkStatus() : FillAll<S>(call, n, /*lowest=*/false);
      });
    });
  }
  // One piece a region.
  ASSIGN_OR_RETURN(const CopyPieces pieces,
                   CopyPieces::Make(s, std::numeric_limits<int64_t>::max()));
  std::vector<Part> parts;
  for (int i = 0; i < pieces.count(); ++i) {
    ASSIGN_OR_RETURN(Part part, MakePart(s, *pieces.At(i).region));
    parts.push_back(std::move(part));
  }
  return ForElements(s.out[0].dtype, [&]<typename S>(S) {
    return Kernel([n, parts, fill = s.fill,
                   maximum = s.reduce == kMaximum](const KernelCall& call) -> absl::Status {
      if ((fill == kZero || fill == kLowest) && !call.accumulate) {
        RETURN_IF_ERROR(FillAll<S>(call, n, fill == kLowest));
      }
      for (const Part& part : parts) {
        RETURN_IF_ERROR(part.sources.size() == 1 && !call.accumulate
                            ? Copy(call, part)
                            : Reduce<S>(call, part, maximum));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

KernelTable CopySlicesTable() { return {{"slice", MakeCopySlices}, {"zero_fill", MakeCopySlices}}; }

}  // namespace oneflow::cuda
