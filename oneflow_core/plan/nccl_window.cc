// Members differ where parts are ragged, and groups differ by the parts that other axes split. The
// results hold for all of them: rows are counted in the largest parts, and measured in the
// smallest.
#include "oneflow_core/plan/nccl_window.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace oneflow {
namespace {

int64_t Aligned(int64_t bytes) {
  return (bytes + kWindowAlignment - 1) / kWindowAlignment * kWindowAlignment;
}

// How two layouts split one dimension.
struct DimCuts {
  int64_t size = 0;                          // logical
  std::vector<int> from, to;                 // axes, the outermost split first
  int64_t from_parts = 1, to_parts = 1;      // products of their sizes
  int64_t from_largest = 0, to_largest = 0;  // of a part
  int64_t smallest = 0;                      // part of `from`
  bool same() const { return from == to; }
  bool even() const { return size % from_parts == 0 && size % to_parts == 0; }
  // True if a part of `to` is inside one part of `from`, and the other way round.
  bool ToInFrom() const { return BeginsWith(to, from); }
  bool FromInTo() const { return BeginsWith(from, to); }
  static bool BeginsWith(const std::vector<int>& all, const std::vector<int>& first) {
    return first.size() <= all.size() && std::equal(first.begin(), first.end(), all.begin());
  }
  // Least size of the intersection of a part of `from` and a part of `to`, if they meet.
  int64_t LeastCommon() const {
    const int64_t least = std::lcm(from_parts, to_parts);
    return size % least == 0 ? size / least : 1;
  }
};

// The size of a part that the axes split in turn; `last`: the smallest one, else the largest.
int64_t PartSize(int64_t size, const std::vector<int>& axes, const Mesh& mesh, bool last) {
  for (const int axis : axes) {
    const int parts = mesh.axes[axis].size;
    size = EvenPart(size, parts, last ? parts - 1 : 0).size;
  }
  return size;
}

class NcclTransition {
 public:
  NcclTransition(const Layout& from, const Layout& to, const Mesh& mesh, const ExchangedTensor& of,
                 const NcclLimits& limits)
      : mesh_(mesh), of_(of), limits_(limits) {
    for (const int64_t size : from.dims) dims_.push_back({.size = size});
    for (const Layout::Split& split : from.splits) dims_[split.dim].from.push_back(split.axis);
    for (const Layout::Split& split : to.splits) dims_[split.dim].to.push_back(split.axis);
    for (DimCuts& dim : dims_) {
      for (const int axis : dim.from) dim.from_parts *= mesh.axes[axis].size;
      for (const int axis : dim.to) dim.to_parts *= mesh.axes[axis].size;
      dim.from_largest = PartSize(dim.size, dim.from, mesh, /*last=*/false);
      dim.to_largest = PartSize(dim.size, dim.to, mesh, /*last=*/false);
      dim.smallest = PartSize(dim.size, dim.from, mesh, /*last=*/true);
      in_bytes_ *= dim.from_largest;
      out_bytes_ *= dim.to_largest;
      even_ = even_ && dim.even();
    }
    in_bytes_ *= of.element_bytes;
    out_bytes_ *= of.element_bytes;
  }

  int64_t Bytes() const {
    const bool same =
        std::all_of(dims_.begin(), dims_.end(), [](const DimCuts& d) { return d.same(); });
    if (same && of_.copies == of_.members && of_.members > 1) {  // all_reduce
      return of_.accumulates ? Aligned(out_bytes_) : 0;
    }
    const int dim = OneSplit();
    if (dim >= 0 && of_.copies == 1) return GatherBytes(dim);
    if (dim >= 0 && of_.copies == of_.members) return ScatterBytes(dim);
    return MessageBytes();
  }

 private:
  // The dimension that the members of the group split in equal parts, in their order, where one of
  // the layouts splits it by the group and the other does not, and nothing else changes; else -1.
  int OneSplit() const {
    int found = -1;
    for (int d = 0; d < std::ssize(dims_); ++d) {
      const DimCuts& dim = dims_[d];
      if (dim.same()) continue;
      const bool gather = of_.copies == 1;
      const std::vector<int>& longer = gather ? dim.from : dim.to;
      const std::vector<int>& shorter = gather ? dim.to : dim.from;
      if (found >= 0 || !dim.even() || !DimCuts::BeginsWith(longer, shorter)) return -1;
      int64_t parts = 1;
      for (size_t i = shorter.size(); i < longer.size(); ++i) {
        if (i > shorter.size() && longer[i] < longer[i - 1]) return -1;
        parts *= mesh_.axes[longer[i]].size;
      }
      if (parts != of_.members) return -1;
      found = d;
    }
    return found;
  }

  // True if each member's part of dimension `dim` is a few long runs of the whole.
  bool PartsAreStraight(int dim) const {
    int64_t rows = 1, row_bytes = of_.element_bytes;
    for (int d = 0; d < std::ssize(dims_); ++d) {
      if (d < dim) rows *= dims_[d].from_largest;
      if (d == dim) row_bytes *= std::min(dims_[d].from_largest, dims_[d].to_largest);
      if (d > dim) row_bytes *= dims_[d].smallest;
    }
    return limits_.Straight(rows, row_bytes);
  }
  bool ArePacked(int64_t part_bytes) const { return even_ && part_bytes % kPackedAlignment == 0; }

  int64_t GatherBytes(int dim) const {
    if (PartsAreStraight(dim) && !of_.accumulates) return 0;
    return ArePacked(in_bytes_) ? Aligned(out_bytes_) : MessageBytes();
  }

  int64_t ScatterBytes(int dim) const {
    const int64_t added = of_.accumulates ? Aligned(out_bytes_) : 0;
    if (PartsAreStraight(dim)) return added;
    return ArePacked(out_bytes_) ? Aligned(in_bytes_) + added : MessageBytes();
  }

  // Bytes that a member sends in many short runs, and bytes that it cannot receive in its output.
  int64_t MessageBytes() const {
    // The parts that each member sends, and that it receives of one source.
    int64_t sent_parts = 1, received_parts = 1;
    bool cuts_in = false, cuts_out = false;  // parts that are apart in the input, in the output
    int64_t outer_in = 1, outer_out = 1;
    int64_t rows = 1, row_bytes = of_.element_bytes;  // of what goes between two members
    for (const DimCuts& dim : dims_) {
      if (!dim.FromInTo()) {
        cuts_in = cuts_in || outer_in > 1;
        sent_parts *= std::min(dim.to_parts, dim.from_largest);
      }
      if (!dim.ToInFrom()) {
        cuts_out = cuts_out || outer_out > 1;
        received_parts *= std::min(dim.from_parts, dim.to_largest);
      }
      outer_in *= dim.from_largest;
      outer_out *= dim.to_largest;
    }
    int inner = static_cast<int>(dims_.size()) - 1;
    while (inner >= 0 && dims_[inner].same()) row_bytes *= dims_[inner--].smallest;
    if (inner >= 0) row_bytes *= dims_[inner].LeastCommon();
    for (int d = 0; d < inner; ++d) {
      rows *= std::min(dims_[d].from_largest, dims_[d].to_largest);
    }
    const bool one_by_one = of_.copies == 1 && limits_.Straight(rows, row_bytes);
    int64_t bytes = 0;
    if (cuts_in && !one_by_one) bytes += PartsBytes(in_bytes_, sent_parts);
    if (of_.copies > 1 || of_.accumulates || (cuts_out && !one_by_one)) {
      bytes += of_.copies * PartsBytes(out_bytes_, received_parts);
    }
    return bytes;
  }

  // Bytes of parts that have `bytes` in all, each aligned.
  static int64_t PartsBytes(int64_t bytes, int64_t parts) {
    return Aligned(bytes) + (parts - 1) * kWindowAlignment;
  }

  const Mesh& mesh_;
  const ExchangedTensor of_;
  const NcclLimits limits_;
  std::vector<DimCuts> dims_;
  int64_t in_bytes_ = 1, out_bytes_ = 1;  // of the largest parts
  bool even_ = true;                      // all parts are equal
};

}  // namespace

int64_t NcclWindow(const Layout& from, const Layout& to, const Mesh& mesh,
                   const ExchangedTensor& tensor, const NcclLimits& limits) {
  return NcclTransition(from, to, mesh, tensor, limits).Bytes();
}

}  // namespace oneflow
