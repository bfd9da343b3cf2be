// CheckCover: boxes fill a tensor exactly once.
//
// The number of boxes that contain an element is a function on the grid, and a function on the grid
// is determined by its mixed differences: those of the indicator of a box are +1 or -1 at the
// corners of the box and 0 elsewhere. So the boxes fill the tensor exactly once if and only if
// their signed corners add up to those of the tensor: 2^k corners a box, in k dimensions, sorted.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "training/checkpoint/manifest.h"

namespace oneflow {
namespace {

bool Inside(const Slice& slice, const Dims& dims) {
  if (slice.begin.size() != dims.size() || slice.size.size() != dims.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (slice.begin[d] > dims[d] || slice.size[d] > dims[d] - slice.begin[d]) return false;
  }
  return true;
}

// The dimensions that some slice does not cover.
std::vector<size_t> SplitDimensions(const StoredVariable& variable) {
  std::vector<size_t> split;
  for (size_t d = 0; d < variable.dims.size(); ++d) {
    const bool all =
        std::all_of(variable.slices.begin(), variable.slices.end(),
                    [&](const StoredSlice& s) { return s.slice.size[d] == variable.dims[d]; });
    if (!all) split.push_back(d);
  }
  return split;
}

struct Corner {
  Dims at;
  int sign = 0;
};

void AddCorners(const Slice& slice, const std::vector<size_t>& split, int sign,
                std::vector<Corner>* corners) {
  for (uint64_t ends = 0; ends < uint64_t{1} << split.size(); ++ends) {
    Corner corner{slice.begin, sign};
    for (size_t i = 0; i < split.size(); ++i) {
      if ((ends >> i & 1) == 0) continue;
      corner.at[split[i]] += slice.size[split[i]];
      corner.sign = -corner.sign;
    }
    corners->push_back(std::move(corner));
  }
}

absl::Status InSlices(const Dims& element, int64_t slices) {
  return absl::DataLossError(
      slices == 0 ? absl::StrCat("element ", ToString(element), " is in no slice")
                  : absl::StrCat("element ", ToString(element), " is in ", slices, " slices"));
}

absl::Status CheckCorners(const StoredVariable& variable, const std::vector<size_t>& split) {
  std::vector<Corner> corners;
  for (const StoredSlice& s : variable.slices) {
    if (s.slice.elements() > 0) AddCorners(s.slice, split, 1, &corners);
  }
  AddCorners({Dims(variable.dims.size(), 0), variable.dims}, split, -1, &corners);
  std::sort(corners.begin(), corners.end(),
            [](const Corner& a, const Corner& b) { return a.at < b.at; });
  for (auto first = corners.begin(); first != corners.end();) {
    int64_t sum = 0;
    auto last = first;
    for (; last != corners.end() && last->at == first->at; ++last) sum += last->sign;
    // All elements before this one are right, so the sum is the error at this element.
    if (sum != 0) return InSlices(first->at, 1 + sum);
    first = last;
  }
  return absl::OkStatus();
}

absl::Status CheckPairs(const StoredVariable& variable) {
  for (size_t i = 0; i < variable.slices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Slice both = Intersect(variable.slices[i].slice, variable.slices[j].slice);
      if (both.elements() > 0) return InSlices(both.begin, 2);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSlice(const StoredVariable& variable, const StoredSlice& slice) {
  const auto failed = [&](const auto&... how) {
    return absl::DataLossError(absl::StrCat("slice ", ToString(slice.slice.begin), " + ",
                                            ToString(slice.slice.size), how...));
  };
  if (!Inside(slice.slice, variable.dims)) {
    return failed(" is outside ", ToString(variable.dims));
  }
  if (slice.run.bytes !=
      slice.slice.elements() * static_cast<int64_t>(ElementBytes(variable.dtype))) {
    return failed(" has ", slice.run.bytes, " bytes");
  }
  return absl::OkStatus();
}

absl::Status CheckCover(const StoredVariable& variable) {
  if (!Countable(variable.dims)) {
    return absl::DataLossError(
        absl::StrCat("has more than 2^48 elements: ", ToString(variable.dims)));
  }
  const int64_t all = Product(variable.dims);
  int64_t elements = 0;
  for (const StoredSlice& s : variable.slices) {
    if (absl::Status status = CheckSlice(variable, s); !status.ok()) return status;
    elements += s.slice.elements();
    if (elements > all) break;  // or a long list would overflow
  }
  if (elements != all) {
    return absl::DataLossError(
        absl::StrCat("has ", elements, " of ", all, " elements of ", ToString(variable.dims)));
  }
  if (all == 0) return absl::OkStatus();
  // A tensor that is split in many dimensions has more corners than pairs of slices: a plan does
  // not do that, but a manifest that somebody made might.
  const std::vector<size_t> split = SplitDimensions(variable);
  const bool few = split.size() < 63 && uint64_t{1} << split.size() <= variable.slices.size();
  return few || split.size() <= 4 ? CheckCorners(variable, split) : CheckPairs(variable);
}

}  // namespace oneflow
