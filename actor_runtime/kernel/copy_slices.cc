// For each source the part of its slice that falls in ours is copied, or reduced in rank order.
//
// Invariants of the copy list that the factory makes:
//  1. regions do not overlap and cover the output: each output element is written exactly once; but
//     where the setup says `fill`, what they leave is filled first;
//  2. the sources of a region are in rank order, so sums have one order on every device;
//  3. a source that holds what another one holds too (it differs on a broadcast axis) is left out.
#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "actor_runtime/kernel/copy_slices.h"
#include "actor_runtime/kernel/factories.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"
#include "actor_runtime/kernel/support.h"

namespace oneflow {
namespace {

enum Reduce { kNone = 0, kSum = 1, kMax = 2 };
enum Fill { kNothing = 0, kZero = 1, kLowest = 2 };

// A box of contiguous runs, the same in all its sources (they hold the same slice of the tensor).
struct Region {
  std::vector<int> sources;
  Dims count;  // of the outer dimensions, slowest first
  Dims from_stride, to_stride;
  int64_t from = 0, to = 0;  // offsets of the first run
  int64_t run = 1;           // elements
  int64_t rows = 1;          // product of count
};

// A piece of a region: some rows of it, or a part of one row.
struct Chunk {
  int region;
  int64_t first_row, rows, begin, size;  // of each row: elements [begin, begin + size)
};

struct CopyList {
  std::vector<Region> regions;
  std::vector<Chunk> chunks;
  int64_t elements = 0;  // of the output
  Reduce reduce = kNone;
  Fill fill = kNothing;
  Isa isa = Isa::kBaseline;
};

Dims StridesOf(const Dims& size) {
  Dims stride(size.size(), 1);
  for (int i = static_cast<int>(size.size()) - 2; i >= 0; --i)
    stride[i] = stride[i + 1] * size[i + 1];
  return stride;
}

// The box `part` of the logical tensor, in the memory of `source` and of `target`.
Region MakeRegion(const Slice& part, const Slice& source, const Slice& target) {
  Region r;
  const Dims from = StridesOf(source.size), to = StridesOf(target.size);
  const int rank = static_cast<int>(part.size.size());
  for (int i = 0; i < rank; ++i) {
    r.from += (part.begin[i] - source.begin[i]) * from[i];
    r.to += (part.begin[i] - target.begin[i]) * to[i];
  }
  // Inner dimensions melt into the run while the part is whole in both.
  int outer = rank;
  bool whole = true;
  while (outer > 0 && whole) {
    --outer;
    r.run *= part.size[outer];
    whole = part.size[outer] == source.size[outer] && part.size[outer] == target.size[outer];
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

// Of the sources that hold `part`, one for each coordinate on the reduced axes, in rank order:
// among equals the one whose memory is nearest.
std::vector<int> PickSources(const KernelSetup& s, const std::vector<int>& holders) {
  auto key = [&](int j) {
    Coordinate k;
    if (s.reduce != kNone) {
      for (int axis : s.reduce_axes) k.push_back(s.in[0][j].coordinate[axis]);
    }
    return k;
  };
  std::vector<int> picked;
  for (int j : holders) {
    auto same = std::find_if(picked.begin(), picked.end(), [&](int p) { return key(p) == key(j); });
    if (same == picked.end()) {
      picked.push_back(j);
    } else if (Distance(s.in[0][j].coordinate, s.coordinate) <
               Distance(s.in[0][*same].coordinate, s.coordinate)) {
      *same = j;
    }
  }
  std::sort(picked.begin(), picked.end(), [&](int a, int b) { return key(a) < key(b); });
  return picked;
}

void AddChunks(CopyList& list, int index) {
  const Region& r = list.regions[index];
  if (r.run >= kPiece) {
    for (int64_t row = 0; row < r.rows; ++row) {
      for (int64_t at = 0; at < r.run; at += kPiece) {
        list.chunks.push_back({index, row, 1, at, std::min(kPiece, r.run - at)});
      }
    }
    return;
  }
  const int64_t step = std::max<int64_t>(1, kPiece / r.run);
  for (int64_t row = 0; row < r.rows; row += step) {
    list.chunks.push_back({index, row, std::min(step, r.rows - row), 0, r.run});
  }
}

absl::StatusOr<CopyList> MakeCopyList(const KernelSetup& s) {
  CopyList list{.elements = Elements(s.out[0]),
                .reduce = static_cast<Reduce>(s.reduce),
                .fill = static_cast<Fill>(s.fill),
                .isa = s.isa};
  const std::vector<Port>& in = s.in[0];
  std::vector<bool> done(in.size(), false);
  int64_t covered = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    if (done[i]) continue;
    std::vector<int> holders;  // of this very slice: pieces of one layout are equal or disjoint
    for (size_t j = i; j < in.size(); ++j) {
      if (in[j].slice == in[i].slice) {
        holders.push_back(static_cast<int>(j));
        done[j] = true;
      }
    }
    const Slice part = Intersect(in[i].slice, s.out[0].slice);
    if (part.elements() == 0) continue;
    covered += part.elements();
    Region region = MakeRegion(part, in[i].slice, s.out[0].slice);
    region.sources = PickSources(s, holders);
    list.regions.push_back(std::move(region));
    AddChunks(list, static_cast<int>(list.regions.size()) - 1);
  }
  if (covered != list.elements && list.fill == kNothing) {
    return absl::InternalError(s.name + " (" + s.kind + "): its sources hold " +
                               std::to_string(covered) + " of " + std::to_string(list.elements) +
                               " elements");
  }
  return list;
}

// Calls fn(from offset, to offset) for the rows of a chunk.
template <typename Fn>
void ForRows(const Region& r, const Chunk& c, Fn fn) {
  for (int64_t row = c.first_row; row < c.first_row + c.rows; ++row) {
    int64_t from = r.from + c.begin, to = r.to + c.begin, rest = row;
    for (int i = static_cast<int>(r.count.size()) - 1; i >= 0; --i) {
      const int64_t index = rest % r.count[i];
      rest /= r.count[i];
      from += index * r.from_stride[i];
      to += index * r.to_stride[i];
    }
    fn(from, to);
  }
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

// y = the reduction of the sources at one run.
template <typename T, typename S>
void ReduceRun(const CopyList& list, const Region& r, std::span<const std::byte* const> sources,
               int64_t from, int64_t n, T* y) {
  auto source = [&](size_t j) { return reinterpret_cast<const S*>(sources[r.sources[j]]) + from; };
  WidenTo(source(0), y, n, list.isa);
  for (size_t j = 1; j < r.sources.size(); ++j) {
    list.reduce == kMax ? MaxTo(source(j), y, n, list.isa) : AddTo(source(j), y, n, list.isa);
  }
}

template <typename T, typename S>
void RunChunk(const CopyList& list, const Chunk& c, const KernelCall& call) {
  const Region& r = list.regions[c.region];
  S* out = call.output<S>(0);
  ForRows(r, c, [&](int64_t from, int64_t to) {
    if (r.sources.size() == 1 && !call.accumulate) {
      std::copy_n(reinterpret_cast<const S*>(call.in[0][r.sources[0]]) + from, c.size, out + to);
      return;
    }
    // The sum of the sources first, then what was there: the order that separate actors would have.
    // It is rounded once.
    T sum[1024];
    for (int64_t at = 0; at < c.size; at += 1024) {
      const int64_t n = std::min<int64_t>(1024, c.size - at);
      ReduceRun<T, S>(list, r, call.in[0], from + at, n, sum);
      if (call.accumulate) AddTo(out + to + at, sum, n, list.isa);
      RoundTo(sum, out + to + at, n, list.isa);
    }
  });
}

template <typename S>
S LowestOf() {
  if constexpr (std::is_same_v<S, Bf16>) {
    return ToBf16(-std::numeric_limits<float>::infinity());
  } else if constexpr (std::is_floating_point_v<S>) {
    return -std::numeric_limits<S>::infinity();
  } else {
    return std::numeric_limits<S>::lowest();
  }
}

// What does not count in a sum or a maximum, everywhere; the regions are written over it.
template <typename S>
void FillOutput(const CopyList& list, const KernelCall& call) {
  const S value = list.fill == kLowest ? LowestOf<S>() : S{};
  const int pieces = static_cast<int>((list.elements + kPiece - 1) / kPiece);
  call.pool->ParallelFor(pieces, [&](int task, int) {
    const int64_t begin = task * kPiece;
    std::fill_n(call.output<S>(0) + begin, std::min(kPiece, list.elements - begin), value);
  });
}

// The pieces that write a list.
template <typename T, typename S = T>
CopyPieces PiecesOf(std::shared_ptr<const CopyList> list) {
  return {static_cast<int>(list->chunks.size()), [list](int piece, const KernelCall& call) {
            RunChunk<T, S>(*list, list->chunks[piece], call);
          }};
}

// What is filled in before the pieces, if anything is.
template <typename S>
Kernel FillKernel(const std::shared_ptr<const CopyList>& list) {
  if (list->fill == kNothing) return nullptr;
  return [list](const KernelCall& call) {
    if (!call.accumulate) FillOutput<S>(*list, call);
    return absl::OkStatus();
  };
}

struct CopyWork {
  CopyPieces pieces;
  Kernel fill;
};

absl::StatusOr<CopyWork> MakeCopyWork(const KernelSetup& s) {
  absl::StatusOr<CopyList> list = MakeCopyList(s);
  if (!list.ok()) return list.status();
  auto shared = std::make_shared<const CopyList>(*std::move(list));
  switch (s.out[0].dtype) {
    case DType::kF32: return CopyWork{PiecesOf<float>(shared), FillKernel<float>(shared)};
    case DType::kF64: return CopyWork{PiecesOf<double>(shared), FillKernel<double>(shared)};
    case DType::kI32: return CopyWork{PiecesOf<int32_t>(shared), FillKernel<int32_t>(shared)};
    case DType::kBF16: return CopyWork{PiecesOf<float, Bf16>(shared), FillKernel<Bf16>(shared)};
    case DType::kU8: return CopyWork{PiecesOf<uint8_t>(shared), FillKernel<uint8_t>(shared)};
  }
  return absl::UnimplementedError(s.name + ": no boxing for dtype " +
                                  std::string(Name(s.out[0].dtype)));
}

Kernel ZeroKernel(int64_t bytes) {
  return [bytes](const KernelCall& call) {
    if (!call.accumulate) std::fill_n(call.out[0], bytes, std::byte{0});
    return absl::OkStatus();
  };
}

}  // namespace

absl::StatusOr<CopyPieces> MakeCopyPieces(const KernelSetup& s) {
  absl::StatusOr<CopyWork> work = MakeCopyWork(s);
  if (!work.ok()) return work.status();
  return std::move(work->pieces);
}

absl::StatusOr<Kernel> MakeCopySlices(const KernelSetup& s) {
  const Port& out = s.out[0];
  for (int axis : s.zero_unless_first) {
    if (s.coordinate[axis] != 0)
      return ZeroKernel(Elements(out) * static_cast<int64_t>(SizeOf(out.dtype)));
  }
  absl::StatusOr<CopyWork> work = MakeCopyWork(s);
  if (!work.ok()) return work.status();
  return Kernel([work = *std::move(work)](const KernelCall& call) {
    absl::Status filled = work.fill ? work.fill(call) : absl::OkStatus();
    call.pool->ParallelFor(work.pieces.count,
                           [&](int piece, int) { work.pieces.run(piece, call); });
    return filled;
  });
}

}  // namespace oneflow
