#include "compiler/passes/boxing_path.h"

#include <catch2/catch.hpp>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

Mesh TwoAxes() { return Mesh{{{"data", 2}, {"tensor", 2}}}; }

std::vector<NdSbp> AllSbps(const std::vector<Sbp>& choices) {
  std::vector<NdSbp> all;
  for (Sbp a : choices) {
    for (Sbp b : choices) all.push_back({a, b});
  }
  return all;
}

// Whether one primitive along `axis` can make the step: what a device will hold must lie with the
// devices that differ from it on that axis only. Told from the geometry, not from the rule.
bool PeersHold(const Mesh& mesh, const Dims& dims, int axis, const NdSbp& from, const NdSbp& to) {
  const Layout before = LayoutOf(dims, from), after = LayoutOf(dims, to);
  for (int rank = 0; rank < mesh.devices(); ++rank) {
    const Slice wanted = SliceOf(after, mesh, mesh.CoordinateOf(rank));
    int64_t found = 0;
    for (int peer : mesh.Peers(mesh.CoordinateOf(rank), {axis})) {
      found += Intersect(wanted, SliceOf(before, mesh, mesh.CoordinateOf(peer))).elements();
    }
    if (found < wanted.elements()) return false;
  }
  return true;
}

TEST_CASE("boxing path: from every SBP on two axes to every other, by steps that peers can make") {
  const Mesh mesh = TwoAxes();
  const Dims dims = {8, 8};
  for (const NdSbp& from : AllSbps({B(), S(0), S(1), P(), PMax()})) {
    for (const NdSbp& to : AllSbps({B(), S(0), S(1), P()})) {
      NdSbp at = from;
      // Nothing turns a maximum into a sum but by way of the whole, which a path does.
      for (const BoxingStep& step : BoxingPath(mesh, dims, 256, from, to)) {
        INFO(ToString(from) << " to " << ToString(to) << " by " << ToString(step.to));
        CHECK(!BoxingKind(at[step.axis], step.to[step.axis]).empty());
        CHECK(at[1 - step.axis] == step.to[1 - step.axis]);
        CHECK(PeersHold(mesh, dims, step.axis, at, step.to));
        at = step.to;
      }
      CHECK(at == to);
    }
  }
}

TEST_CASE("boxing path: no step for equal SBPs, one where one does") {
  const Mesh mesh = TwoAxes();
  CHECK(BoxingPath(mesh, {8, 8}, 256, {S(0), P()}, {S(0), P()}).empty());
  CHECK(BoxingPath(mesh, {8, 8}, 256, {S(0), P()}, {S(0), B()}).size() == 1);
  CHECK(BoxingPath(mesh, {8, 8}, 256, {B(), S(1)}, {B(), S(0)}).size() == 1);
}

TEST_CASE("boxing path: large partial tensors are reduced in pieces, if a dimension can be cut") {
  const Mesh mesh{{{"tensor", 4}}};
  const int64_t large = 4 * kAllReduceBytes;
  CHECK(BoxingPath(mesh, {1024, 64}, kAllReduceBytes, {P()}, {B()}).size() == 1);
  const auto pieces = BoxingPath(mesh, {1024, 64}, large, {P()}, {B()});
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0].to == NdSbp{S(0)});
  const auto second_dim = BoxingPath(mesh, {2, 32768}, large, {P()}, {B()});
  REQUIRE(second_dim.size() == 2);
  CHECK(second_dim[0].to == NdSbp{S(1)});
  CHECK(BoxingPath(mesh, {3, 3}, large, {P()}, {B()}).size() == 1);
}

TEST_CASE("boxing price: splitting what is whole is all but free, un-splitting is not") {
  CHECK(TransitionPrice(B(), B(), 1e6, 4) == 0);
  CHECK(TransitionPrice(B(), S(0), 1e6, 4) < TransitionPrice(S(0), S(1), 1e6, 4));
  CHECK(TransitionPrice(S(0), S(1), 1e6, 4) < TransitionPrice(S(0), B(), 1e6, 4));
  CHECK(TransitionPrice(S(0), B(), 1e6, 4) < TransitionPrice(P(), B(), 1e6, 4));
  CHECK(TransitionPrice(P(), B(), 1e6, 4) <
        TransitionPrice(P(), S(0), 1e6, 4) + TransitionPrice(S(0), B(), 1e6, 4));
  CHECK(TransitionPrice(B(), PMax(), 1e6, 4) >= kImpossible);
}

}  // namespace
}  // namespace oneflow
