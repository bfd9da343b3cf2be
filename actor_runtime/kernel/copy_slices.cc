// For each source the part of its slice that falls in ours is copied, or reduced in rank order.
//
// Invariants of the regions that the factory makes:
//  1. they do not overlap and cover the output: each output element is written exactly once; but
//     where the setup says `fill`, what they leave is filled first;
//  2. the sources of a region are in rank order, so sums have one order on every device;
//  3. a source that holds what another one holds too (it differs on a broadcast axis) is left out.
#include "actor_runtime/kernel/copy_slices.h"

#include <algorithm>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

enum Reduce { kNone = 0, kSum = 1, kMax = 2 };
enum Fill { kNothing = 0, kZero = 1, kLowest = 2, kKeep = 3 };

Dims MakeStrides(const Dims& size) {
  Dims stride(size.size(), 1);
  for (int i = static_cast<int>(size.size()) - 2; i >= 0; --i)
    stride[i] = stride[i + 1] * size[i + 1];
  return stride;
}

// Chooses one source for each coordinate on the reduced axes, in rank order: among equal sources
// the one whose memory is nearest.
std::vector<int> PickSources(const KernelSetup& s, const std::vector<int>& owners) {
  std::map<Coordinate, int> picked;  // by coordinate on the reduced axes
  for (int j : owners) {
    const Coordinate& at = s.in[0][j].coordinate;
    Coordinate key;
    if (s.reduce != kNone) {
      for (int axis : s.reduce_axes) key.push_back(at[axis]);
    }
    const auto [same, fresh] = picked.try_emplace(std::move(key), j);
    if (!fresh &&
        Distance(at, s.coordinate) < Distance(s.in[0][same->second].coordinate, s.coordinate)) {
      same->second = j;
    }
  }
  std::vector<int> sources;
  for (const auto& [key, source] : picked) sources.push_back(source);
  return sources;
}

// Groups the sources by the slice that they own, in the order of their first: pieces of one layout
// are equal or disjoint.
std::vector<std::vector<int>> FindOwners(const std::vector<Port>& in) {
  std::vector<std::vector<int>> owners;
  std::map<std::pair<Dims, Dims>, size_t> index;
  for (size_t j = 0; j < in.size(); ++j) {
    const auto [same, fresh] =
        index.try_emplace({in[j].slice.begin, in[j].slice.size}, owners.size());
    if (fresh) owners.emplace_back();
    owners[same->second].push_back(static_cast<int>(j));
  }
  return owners;
}

// Elements are stored as S and reduced as T.
template <typename T, typename S>
void WidenTo(const S* x, T* y, int64_t n, Isa isa) {
  if constexpr (std::is_same_v<T, S>) {
    std::copy_n(x, n, y);
  } else {
    VectorFor<T, S>(isa)->widen(x, y, n, /*accumulate=*/false);
  }
}

template <typename T, typename S>
void RoundTo(const T* x, S* y, int64_t n, Isa isa) {
  if constexpr (std::is_same_v<T, S>) {
    std::copy_n(x, n, y);
  } else {
    VectorFor<T, S>(isa)->round(x, y, n, /*accumulate=*/false);
  }
}

template <typename T, typename S>
void AddTo(const S* x, T* y, int64_t n, Isa isa) {
  if constexpr (std::is_floating_point_v<T>) {
    VectorFor<T, S>(isa)->accumulate(x, y, n);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  }
}

template <typename T, typename S>
void MaxTo(const S* x, T* y, int64_t n, Isa isa) {
  if constexpr (std::is_floating_point_v<T>) {
    VectorFor<T, S>(isa)->maximum(x, y, n);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = std::max(y[i], x[i]);
  }
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

// Fills the output with the neutral element of the sum or maximum; the regions overwrite it.
template <typename S>
void FillOutput(bool lowest, int64_t elements, const KernelCall& call) {
  const S value = lowest ? LowestValue<S>() : S{};
  ForPieces(call, elements, kPiece, [&](int64_t begin, int64_t end) {
    std::fill(call.output<S>(0) + begin, call.output<S>(0) + end, value);
  });
}

Kernel ZeroKernel(int64_t bytes) {
  return [bytes](const KernelCall& call) {
    if (!call.accumulate) std::fill_n(call.out[0], bytes, std::byte{0});
    return absl::OkStatus();
  };
}

// fn(T(), S()) for elements that are stored as S and reduced as T.
template <typename Fn>
auto ForElements(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kF32: return fn(float(), float());
    case DType::kF64: return fn(double(), double());
    case DType::kI32: return fn(int32_t(), int32_t());
    case DType::kBF16: return fn(float(), Bf16());
    case DType::kU8: break;
  }
  return fn(uint8_t(), uint8_t());
}

}  // namespace

int64_t CopyRegion::pieces(int64_t most) const {
  if (run >= most) return rows * ((run - 1) / most + 1);
  const int64_t rows_a_piece = most / run;
  return rows == 0 ? 0 : (rows - 1) / rows_a_piece + 1;  // `most` may be the largest number
}

CopyChunk FindChunk(const CopyRegion& r, int64_t most, int64_t index) {
  if (r.run >= most) {
    const int64_t pieces_a_row = (r.run + most - 1) / most, begin = index % pieces_a_row * most;
    return {index / pieces_a_row, 1, begin, std::min(most, r.run - begin)};
  }
  const int64_t rows_a_piece = most / r.run, first = index * rows_a_piece;
  return {first, std::min(rows_a_piece, r.rows - first), 0, r.run};
}

CopyRegion RegionBetween(const Slice& source, const Slice& target) {
  const Slice part = Intersect(source, target);
  CopyRegion r;
  if (part.elements() == 0) {
    r.rows = 0;
    return r;
  }
  const Dims from = MakeStrides(source.size), to = MakeStrides(target.size);
  const int rank = static_cast<int>(part.size.size());
  for (int i = 0; i < rank; ++i) {
    r.from += (part.begin[i] - source.begin[i]) * from[i];
    r.to += (part.begin[i] - target.begin[i]) * to[i];
  }
  // Inner dimensions join the run while the part covers them in both tensors.
  int outer = rank;
  bool dense = true;
  while (outer > 0 && dense) {
    --outer;
    r.run *= part.size[outer];
    dense = part.size[outer] == source.size[outer] && part.size[outer] == target.size[outer];
  }
  for (int i = 0; i < outer; ++i) {
    if (part.size[i] == 1) continue;
    r.count.push_back(part.size[i]);
    r.from_stride.push_back(from[i]);
    r.to_stride.push_back(to[i]);
    r.rows *= part.size[i];
  }
  return r;
}

bool IsContiguousInTarget(const CopyRegion& r, const CopyChunk& c) {
  bool contiguous = true;
  int64_t next = -1;
  ForRows(r, c, [&](int64_t, int64_t to) {
    contiguous = contiguous && (next < 0 || to == next);
    next = to + c.size;
  });
  return contiguous;
}

struct CopyPieces::Call {
  const CopyRegion& region;
  CopyChunk chunk;
  std::span<const std::byte*const> sources, packets;
  std::byte* out;
  bool accumulate, maximum;
  Isa isa;
};

template <typename T, typename S>
void CopyPieces::RunChunk(const Call& call) {
  const CopyRegion& r = call.region;
  const int64_t size = call.chunk.size;
  S* out = reinterpret_cast<S*>(call.out);
  int64_t packed = 0;  // offset of the row in a packet
  ForRows(r, call.chunk, [&](int64_t from, int64_t to) {
    const auto source = [&](size_t j) {
      const std::byte* packet = call.packets.empty() ? nullptr : call.packets[j];
      return packet != nullptr ? reinterpret_cast<const S*>(packet) + packed
                               : reinterpret_cast<const S*>(call.sources[r.sources[j]]) + from;
    };
    if (r.sources.size() == 1 && !call.accumulate) {
      std::copy_n(source(0), size, out + to);
    } else {
      // The sum of the sources first, then what was there: the order that separate actors would
      // have. It is rounded once.
      T sum[1024];
      for (int64_t at = 0; at < size; at += 1024) {
        const int64_t n = std::min<int64_t>(1024, size - at);
        WidenTo(source(0) + at, sum, n, call.isa);
        for (size_t j = 1; j < r.sources.size(); ++j) {
          call.maximum ? MaxTo(source(j) + at, sum, n, call.isa)
                       : AddTo(source(j) + at, sum, n, call.isa);
        }
        if (call.accumulate) AddTo(out + to + at, sum, n, call.isa);
        RoundTo(sum, out + to + at, n, call.isa);
      }
    }
    packed += size;
  });
}

absl::StatusOr<CopyPieces> CopyPieces::Make(const KernelSetup& s, int64_t most) {
  CopyPieces pieces;
  pieces.most_ = most;
  pieces.maximum_ = s.reduce == kMax;
  pieces.isa_ = s.isa;
  pieces.run_ = ForElements(
      s.out[0].dtype, []<typename T, typename S>(T, S) { return &CopyPieces::RunChunk<T, S>; });
  int64_t covered = 0;
  for (const std::vector<int>& owners : FindOwners(s.in[0])) {
    CopyRegion region = RegionBetween(s.in[0][owners[0]].slice, s.out[0].slice);
    if (region.rows == 0) continue;
    covered += region.rows * region.run;
    region.sources = PickSources(s, owners);
    pieces.ends_.push_back(pieces.count() + static_cast<int>(region.pieces(most)));
    pieces.regions_.push_back(std::move(region));
  }
  const int64_t elements = Elements(s.out[0]);
  if (covered != elements && s.fill == kNothing) {
    return absl::InternalError(s.name + " (" + s.kind + "): its sources hold " +
                               std::to_string(covered) + " of " + std::to_string(elements) +
                               " elements");
  }
  return pieces;
}

CopyPieces::Piece CopyPieces::At(int piece) const {
  const auto region = std::upper_bound(ends_.begin(), ends_.end(), piece) - ends_.begin();
  const int64_t index = piece - (region == 0 ? 0 : ends_[region - 1]);
  return {&regions_[region], index, FindChunk(regions_[region], most_, index)};
}

void CopyPieces::Run(int piece, std::span<const std::byte* const> sources,
                     std::span<const std::byte* const> packets, std::byte* out,
                     bool accumulate) const {
  const Piece at = At(piece);
  run_({*at.region, at.chunk, sources, packets, out, accumulate, maximum_, isa_});
}

namespace {

absl::StatusOr<Kernel> MakeCopySlices(const KernelSetup& s) {
  const Port& out = s.out[0];
  for (int axis : s.zero_unless_first) {
    if (s.coordinate[axis] != 0)
      return ZeroKernel(Elements(out) * static_cast<int64_t>(ElementBytes(out.dtype)));
  }
  absl::StatusOr<CopyPieces> pieces = CopyPieces::Make(s);
  if (!pieces.ok()) return pieces.status();
  const auto fill =
      ForElements(out.dtype, []<typename T, typename S>(T, S) { return &FillOutput<S>; });
  return Kernel([pieces = *std::move(pieces), fill, how = s.fill,
                 elements = Elements(out)](const KernelCall& call) {
    if ((how == kZero || how == kLowest) && !call.accumulate) {
      fill(how == kLowest, elements, call);
    }
    call.pool->ParallelFor(pieces.count(), [&](int piece, int) {
      pieces.Run(piece, call.in[0], {}, call.out[0], call.accumulate);
    });
    return absl::OkStatus();
  });
}

}  // namespace

KernelTable CopySlicesTable() { return {{"slice", MakeCopySlices}, {"zero_fill", MakeCopySlices}}; }

}  // namespace oneflow
