#include "oneflow_core/tensor/layout.h"

#include <algorithm>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

// How often each element of the tensor is held by the mesh.
std::vector<int> Cover(const Layout& layout, const Mesh& mesh) {
  std::vector<int> held(Product(layout.dims));
  for (int rank = 0; rank < mesh.devices(); ++rank) {
    const Slice slice = LocalSlice(layout, mesh, mesh.RankToCoordinate(rank));
    for (int64_t i = 0; i < slice.elements(); ++i) {
      int64_t rest = i, index = 0, stride = 1;
      for (size_t d = layout.dims.size(); d-- > 0; stride *= layout.dims[d]) {
        index += (slice.begin[d] + rest % slice.size[d]) * stride;
        rest /= slice.size[d];
      }
      ++held[index];
    }
  }
  return held;
}

}  // namespace

TEST_CASE("the first n mod p parts get one more") {
  CHECK(EvenPart(5, 2, 0) == Range{0, 3});
  CHECK(EvenPart(5, 2, 1) == Range{3, 2});
  CHECK(EvenPart(8, 4, 3) == Range{6, 2});
  CHECK(EvenPart(2, 4, 1) == Range{1, 1});
  CHECK(EvenPart(2, 4, 3) == Range{2, 0});
  for (int64_t n = 0; n < 12; ++n) {
    for (int p = 1; p < 6; ++p) {
      int64_t end = 0;
      for (int i = 0; i < p; ++i) {
        CHECK(EvenPart(n, p, i).begin == end);
        end += EvenPart(n, p, i).size;
      }
      CHECK(end == n);
    }
  }
}

TEST_CASE("slices meet in a box, or not at all") {
  const Slice a{{0, 0}, {4, 4}}, b{{2, 3}, {4, 4}}, c{{4, 0}, {1, 1}};
  CHECK(Intersect(a, b) == Slice{{2, 3}, {2, 1}});
  CHECK(Intersect(b, a) == Intersect(a, b));
  CHECK(Intersect(a, c).elements() == 0);
  CHECK(Intersect(Slice{}, Slice{}).elements() == 1);  // scalars always meet
}

TEST_CASE("B and P split nothing, S splits, in the order of the mesh") {
  const Layout layout = MakeLayout({6, 8}, {S(0), B(), P(), S(1), S(0)});
  CHECK(layout.splits == std::vector<Layout::Split>{{0, 0}, {1, 3}, {0, 4}});
  CHECK(MakeLayout({6}, {B(), P()}).splits.empty());
}

TEST_CASE("a ragged split of two dimensions") {
  const Mesh mesh = *ParseMesh("data=2,tensor=3");
  const Layout layout = MakeLayout({5, 4}, {S(0), S(1)});
  CHECK(LocalSlice(layout, mesh, {0, 0}) == Slice{{0, 0}, {3, 2}});
  CHECK(LocalSlice(layout, mesh, {1, 2}) == Slice{{3, 3}, {2, 1}});
  CHECK(MaxElements(layout, mesh) == 6);
}

TEST_CASE("nested splits of one dimension: the first axis is outermost") {
  const Mesh mesh = *ParseMesh("data=2,tensor=2");
  const Layout layout = MakeLayout({7}, {S(0), S(0)});  // 4+3, then (2+2)+(2+1)
  CHECK(LocalSlice(layout, mesh, {0, 0}) == Slice{{0}, {2}});
  CHECK(LocalSlice(layout, mesh, {0, 1}) == Slice{{2}, {2}});
  CHECK(LocalSlice(layout, mesh, {1, 0}) == Slice{{4}, {2}});
  CHECK(LocalSlice(layout, mesh, {1, 1}) == Slice{{6}, {1}});
  CHECK(MaxElements(layout, mesh) == 2);
}

TEST_CASE("every element is held as often as the axes that do not split say") {
  const Mesh mesh = *ParseMesh("a=2,b=3,c=2");
  const std::vector<Sbp> choices = {B(), S(0), S(1), P()};
  for (const Sbp a : choices) {
    for (const Sbp b : choices) {
      for (const Sbp c : choices) {
        const Layout layout = MakeLayout({5, 7}, {a, b, c});
        const int copies = (a.split() ? 1 : 2) * (b.split() ? 1 : 3) * (c.split() ? 1 : 2);
        const std::vector<int> held = Cover(layout, mesh);
        CHECK(std::all_of(held.begin(), held.end(), [&](int n) { return n == copies; }));
        int64_t largest = 0;
        for (int rank = 0; rank < mesh.devices(); ++rank) {
          largest =
              std::max(largest, LocalSlice(layout, mesh, mesh.RankToCoordinate(rank)).elements());
        }
        CHECK(MaxElements(layout, mesh) == largest);
      }
    }
  }
}

TEST_CASE("runs of a slice are neighbours in the tensor") {
  using Run = std::vector<int64_t>;  // element, index, count
  const auto runs = [](const Dims& dims, const Slice& slice, int64_t begin, int64_t end) {
    std::vector<Run> all;
    ForRuns(dims, slice, begin, end, [&](int64_t element, int64_t index, int64_t count) {
      all.push_back({element, index, count});
    });
    return all;
  };
  const Slice columns{{0, 1}, {3, 2}}, rows{{1, 0}, {2, 4}}, all_rows{{0, 0}, {3, 4}};
  CHECK(runs({3, 4}, columns, 0, 6) == std::vector<Run>{{0, 1, 2}, {2, 5, 2}, {4, 9, 2}});
  CHECK(runs({3, 4}, columns, 1, 4) == std::vector<Run>{{1, 2, 1}, {2, 5, 2}});
  CHECK(runs({3, 4}, rows, 0, 8) == std::vector<Run>{{0, 4, 8}});
  CHECK(runs({3, 4}, all_rows, 5, 12) == std::vector<Run>{{5, 5, 7}});
  CHECK(runs({}, {{}, {}}, 0, 1) == std::vector<Run>{{0, 0, 1}});
  CHECK(runs({3, 4}, {{3, 0}, {0, 4}}, 0, 0).empty());
}

TEST_CASE("a scalar, and a tensor with fewer rows than parts") {
  const Mesh mesh = *ParseMesh("data=4");
  CHECK(LocalSlice(MakeLayout({}, {B()}), mesh, {2}).elements() == 1);
  const Layout few = MakeLayout({2, 3}, {S(0)});
  CHECK(LocalSlice(few, mesh, {3}).elements() == 0);
  CHECK(MaxElements(few, mesh) == 3);
}

}  // namespace oneflow
