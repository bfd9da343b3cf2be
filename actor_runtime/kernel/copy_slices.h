// CopyPieces: the copying that one member of a group needs in an exchange, in pieces that any
// thread may take, in any order. The local boxing kernels (slice, zero_fill) run the same pieces on
// a device's own pool.
//
// A source may be in another process. Then the data that a piece takes from it travels as a packet:
// its rows, one after the other. Both ends find these rows with RegionBetween and FindChunk alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// A box of rows of a tensor, each contiguous with `run` elements, in the memory of the target and
// of its sources, which all hold the same slice of the tensor.
struct CopyRegion {
  std::vector<int> sources;  // indices in the group, in the order of sums
  Dims count;                // number of rows, in the outer dimensions, slowest first
  Dims from_stride, to_stride;
  int64_t from = 0, to = 0;  // offsets of the first row
  int64_t run = 1;
  int64_t rows = 1;  // product of count; 0: the slices do not meet

  // The number of pieces of at most `most` elements.
  int64_t pieces(int64_t most) const;
};

// A piece of a region: elements [begin, begin + size) of some rows.
struct CopyChunk {
  int64_t first_row = 0, rows = 0, begin = 0, size = 0;
  int64_t elements() const { return rows * size; }
};

// The intersection of two slices of a tensor; its sources are not set.
CopyRegion RegionBetween(const Slice& source, const Slice& target);
// Piece `index` of region.pieces(most).
CopyChunk FindChunk(const CopyRegion& region, int64_t most, int64_t index);
// True if the rows of a chunk are contiguous in the target, too.
bool IsContiguousInTarget(const CopyRegion& region, const CopyChunk& chunk);

// Calls fn(from, to) with the offsets of each row of a chunk, in turn.
template <typename Fn>
void ForRows(const CopyRegion& r, const CopyChunk& c, Fn fn) {
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

// The most elements of a piece between members of one process.
inline constexpr int64_t kLocalPiece = 16384;

class CopyPieces {
 public:
  // setup.in[0]: the sources, in the order of the group; setup.out[0]: the member's output.
  static absl::StatusOr<CopyPieces> Make(const KernelSetup& setup, int64_t most = kLocalPiece);

  int count() const { return ends_.empty() ? 0 : ends_.back(); }
  std::span<const CopyRegion> regions() const { return regions_; }
  struct Piece {
    const CopyRegion* region;
    int64_t index;  // among the pieces of the region
    CopyChunk chunk;
  };
  Piece At(int piece) const;

  // Writes a piece of `out`. Different pieces write different elements. `sources`: the memory of
  // each source of the group. `packets`: by source of the piece's region, its packet; null if the
  // source is read in place. An empty `packets` means that all are.
  void Run(int piece, std::span<const std::byte* const> sources,
           std::span<const std::byte* const> packets, std::byte* out, bool accumulate) const;

 private:
  struct Call;
  template <typename T, typename S>
  static void RunChunk(const Call& call);

  std::vector<CopyRegion> regions_;
  std::vector<int> ends_;  // by region: number of the first piece after its own
  int64_t most_ = kLocalPiece;
  bool maximum_ = false;  // else a sum
  Isa isa_ = Isa::kBaseline;
  void (*run_)(const Call&) = nullptr;
};

}  // namespace oneflow
