// Boxing kernels: for random pairs of layouts, each device ends with its slice of the full tensor
// that the sources represent.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_test_util.h"

namespace oneflow {
namespace {

struct Case {
  Mesh mesh;
  Dims dims;
  NdSbp from, to;
  int reduce = 0;  // as in KernelSetup
};

std::string Describe(const Case& c) {
  return ToString(c.mesh) + " " + ToString(c.dims) + " " + ToString(c.from) + " -> " +
         ToString(c.to);
}

bool Partial(const Case& c, int axis) { return c.from[axis].partial() && !c.to[axis].partial(); }

// All parts of the source tensor, one for each rank, and the full tensor that they represent.
struct Parts {
  std::vector<Port> ports;
  std::vector<Values> values;
  Values full;
};

// Ranks that differ only on broadcast or split axes hold parts of the same partial tensor: there is
// one full tensor for each coordinate on the partial axes. The result is their sum or maximum,
// folded in rank order.
Parts MakeParts(const Case& c, DType dtype) {
  Parts parts;
  std::vector<Coordinate> seen;
  std::vector<Values> tensors;
  for (int rank = 0; rank < c.mesh.devices(); ++rank) {
    const Coordinate at = c.mesh.RankToCoordinate(rank);
    Coordinate key;
    for (size_t a = 0; a < at.size(); ++a) key.push_back(c.from[a].partial() ? at[a] : 0);
    size_t index = std::find(seen.begin(), seen.end(), key) - seen.begin();
    if (index == seen.size()) {
      seen.push_back(key);
      // bf16 holds integers up to 256: sums of six, doubled, are exact.
      tensors.push_back(
          RandomIds(Product(c.dims), 31 * index + 7, dtype == DType::kBF16 ? 21 : 1000));
    }
    Port port = SlicePort(c.dims, LocalSlice(MakeLayout(c.dims, c.from), c.mesh, at), dtype);
    port.coordinate = at;
    parts.values.push_back(ExtractSlice(tensors[index], c.dims, port.slice));
    parts.ports.push_back(std::move(port));
  }
  parts.full = tensors[0];
  for (size_t t = 1; t < tensors.size(); ++t) {
    for (size_t i = 0; i < parts.full.size(); ++i) {
      double& w = parts.full[i];
      w = c.reduce == 2 ? std::max(w, tensors[t][i]) : w + tensors[t][i];
    }
  }
  return parts;
}

// True if two axes split one dimension: then a change on one moves the pieces along the other, too.
bool Nested(const NdSbp& sbp) {
  return sbp.size() == 2 && sbp[0].split() && sbp[1].split() && sbp[0].dim == sbp[1].dim;
}

// The harness of device `rank`: peers along all axes on which the layouts differ, and some more.
KernelHarness HarnessAt(const Case& c, const Parts& parts, int rank, DType dtype, bool all_peers) {
  const Coordinate at = c.mesh.RankToCoordinate(rank);
  all_peers = all_peers || Nested(c.from) || Nested(c.to);
  std::vector<int> along, reduced;
  for (int a = 0; a < static_cast<int>(at.size()); ++a) {
    if (all_peers || !(c.from[a] == c.to[a])) along.push_back(a);
    if (Partial(c, a)) reduced.push_back(a);
  }
  std::vector<Port> sources;
  std::vector<Values> values;
  for (int peer : c.mesh.Peers(at, along)) {
    sources.push_back(parts.ports[peer]);
    values.push_back(parts.values[peer]);
  }
  Port out = SlicePort(c.dims, LocalSlice(MakeLayout(c.dims, c.to), c.mesh, at), dtype);
  KernelHarness h("slice", {}, {sources}, {out}, 2);
  h.setup().mesh = c.mesh;
  h.setup().coordinate = at;
  h.setup().reduce = c.reduce;
  h.setup().reduce_axes = reduced;
  for (size_t j = 0; j < values.size(); ++j) h.SetInput(0, values[j], static_cast<int>(j));
  return h;
}

void Check(const Case& c, DType dtype, bool all_peers) {
  INFO(Describe(c));
  const Parts parts = MakeParts(c, dtype);
  for (int rank = 0; rank < c.mesh.devices(); ++rank) {
    KernelHarness h = HarnessAt(c, parts, rank, dtype, all_peers);
    const Slice slice = h.setup().out[0].slice;
    const Values expected = ExtractSlice(parts.full, c.dims, slice);
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    REQUIRE(h.Output(0) == expected);
    // Once more, added to what is there.
    REQUIRE(h.Call(/*accumulate=*/true) == absl::OkStatus());
    Values twice = expected;
    for (double& v : twice) v *= 2;
    REQUIRE(h.Output(0) == twice);
  }
}

TEST_CASE(
    "random pairs of nd-SBPs on meshes of one and two axes, ragged and empty pieces included") {
  std::mt19937 random(20240607);
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  const std::vector<Mesh> meshes = {Mesh{{{"a", 2}}}, Mesh{{{"a", 3}}}, Mesh{{{"a", 2}, {"b", 2}}},
                                    Mesh{{{"a", 2}, {"b", 3}}}};
  const std::vector<int64_t> sizes = {1, 2, 3, 5, 7, 11, 13};
  for (int i = 0; i < 400; ++i) {
    Case c{.mesh = meshes[below(4)]};
    for (int d = 1 + below(3); d > 0; --d) c.dims.push_back(sizes[below(7)]);
    const int rank = static_cast<int>(c.dims.size());
    c.reduce = below(3);
    for (size_t a = 0; a < c.mesh.axes.size(); ++a) {
      const int kind = below(c.reduce == 0 ? 2 : 3);
      c.from.push_back(kind == 0 ? B() : kind == 1 ? S(below(rank)) : c.reduce == 1 ? P() : PMax());
      c.to.push_back(below(2) == 0 ? B() : S(below(rank)));
    }
    const DType dtypes[] = {DType::kF32, DType::kF64, DType::kI32, DType::kBF16};
    Check(c, dtypes[below(4)], below(2) == 0);
  }
}

TEST_CASE("pieces larger than a task") {
  const Mesh mesh{{{"a", 2}, {"b", 2}}};
  Check({mesh, {3, 70001}, {S(1), P()}, {B(), S(1)}, 1}, DType::kF32, false);
  Check({mesh, {301, 257}, {S(1), B()}, {S(0), S(0)}, 0}, DType::kF32, true);
  Check({mesh, {50001, 3}, {S(0), S(1)}, {B(), B()}, 0}, DType::kF32, true);
}

TEST_CASE("sums are taken in rank order on every device") {
  // In f32 (1e8 - 1e8) + 1 is 1; any order in which 1 is not last loses it.
  const Mesh mesh{{{"a", 3}}};
  for (int rank = 0; rank < 3; ++rank) {
    Port port = FullPort({1}, DType::kF32);
    std::vector<Port> sources(3, port);
    for (int j = 0; j < 3; ++j) sources[j].coordinate = {j};
    KernelHarness h("slice", {}, {sources}, {port});
    h.setup().mesh = mesh;
    h.setup().coordinate = {rank};
    h.setup().reduce = 1;
    h.setup().reduce_axes = {0};
    const double values[] = {1e8, -1e8, 1};
    for (int j = 0; j < 3; ++j) h.SetInput(0, {values[j]}, j);
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    CHECK(h.Output(0) == Values{1});
  }
}

TEST_CASE("a sum of bf16 is taken in f32 and rounded once") {
  // Each single term is lost when added to 256.
  constexpr int kParts = 4;
  Port port = FullPort({1}, DType::kBF16);
  std::vector<Port> sources(kParts, port);
  for (int j = 0; j < kParts; ++j) sources[j].coordinate = {j};
  KernelHarness h("slice", {}, {sources}, {port});
  h.setup().mesh = Mesh{{{"a", kParts}}};
  h.setup().coordinate = {0};
  h.setup().reduce = 1;
  h.setup().reduce_axes = {0};
  for (int j = 0; j < kParts; ++j) h.SetInput(0, {j == 0 ? 256.0 : 0.75}, j);
  REQUIRE(h.MakeAndCall() == absl::OkStatus());
  CHECK(h.Output(0) == Values{258});
}

TEST_CASE("zero_fill writes zeros but at coordinate 0") {
  for (int rank : {0, 1}) {
    Port port = FullPort({4}, DType::kF32);
    KernelHarness h("zero_fill", {}, {{port}}, {port});
    h.setup().mesh = Mesh{{{"a", 2}}};
    h.setup().coordinate = {rank};
    h.setup().zero_unless_first = {0};
    h.SetInput(0, {1, 2, 3, 4});
    h.SetOutput(0, {9, 9, 9, 9});
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    CHECK(h.Output(0) == (rank == 0 ? Values{1, 2, 3, 4} : Values{0, 0, 0, 0}));
    h.SetOutput(0, {9, 9, 9, 9});
    REQUIRE(h.Call(/*accumulate=*/true) == absl::OkStatus());
    CHECK(h.Output(0) == (rank == 0 ? Values{10, 11, 12, 13} : Values{9, 9, 9, 9}));
  }
}

TEST_CASE("elements that no source holds get the neutral element") {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16}) {
    for (const int fill : {1, 2, 3}) {
      KernelHarness h("zero_fill", {}, {{SlicePort({2, 4}, {{0, 1}, {2, 2}}, dtype)}},
                      {FullPort({2, 4}, dtype)});
      h.setup().mesh = Mesh{{{"a", 2}}};
      h.setup().coordinate = {0};
      h.setup().fill = fill;
      h.SetInput(0, {1, 2, 3, 4});
      h.SetOutput(0, {9, 9, 9, 9, 9, 9, 9, 9});
      REQUIRE(h.MakeAndCall() == absl::OkStatus());
      const double lowest = dtype == DType::kI32
                                ? static_cast<double>(std::numeric_limits<int32_t>::lowest())
                                : -std::numeric_limits<double>::infinity();
      const double z = fill == 1 ? 0 : fill == 2 ? lowest : 9;
      CHECK(h.Output(0) == Values{z, 1, 2, z, z, 3, 4, z});
      h.SetOutput(0, {9, 9, 9, 9, 9, 9, 9, 9});
      REQUIRE(h.Call(/*accumulate=*/true) == absl::OkStatus());
      CHECK(h.Output(0) == Values{9, 10, 11, 9, 9, 12, 13, 9});
    }
  }
}

TEST_CASE("sources that do not hold all of the output are refused") {
  KernelHarness h("slice", {}, {{SlicePort({4}, {{0}, {2}}, DType::kF32)}},
                  {FullPort({4}, DType::kF32)});
  h.setup().in[0][0].coordinate = {0};
  h.setup().coordinate = {0};
  CHECK(h.Make().code() == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace oneflow
