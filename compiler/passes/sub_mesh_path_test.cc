// Boxing paths from one sub-mesh to another: no dearer than any other way, and with the bytes of
// the textbook. That real data arrives: tests/e2e/sub_mesh_boxing_test.cc.
#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/boxing_path.h"
#include "compiler/passes/boxing_primitive.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

using On = std::optional<SubMesh>;

On At(const std::string& axes, int first = 0) { return DenseSubMesh(*ParseMesh(axes), first); }

// Every nd-SBP of a matrix on a mesh.
void AddAll(const Mesh& whole, const On& on, std::vector<MeshSbp>* all) {
  const size_t axes = (on ? on->mesh : whole).axes.size();
  std::vector<NdSbp> sbps = {{}};
  for (size_t a = 0; a < axes; ++a) {
    std::vector<NdSbp> longer;
    for (const NdSbp& sbp : sbps) {
      for (const Sbp choice : {B(), S(0), S(1), P(), PMax()}) {
        longer.push_back(sbp);
        longer.back().push_back(choice);
      }
    }
    sbps = std::move(longer);
  }
  for (NdSbp& sbp : sbps) all->push_back({on, std::move(sbp)});
}

// Nodes of two devices, with slow links between them.
proto::Cluster Nodes() {
  proto::Cluster cluster;
  for (const double bandwidth : {1e11, 1e9}) {
    proto::Level* level = cluster.add_level();
    level->set_size(bandwidth > 1e10 ? 2 : 100);
    level->set_latency(1e-6);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

// Whether a way may pass `at`: partial only where an end on its mesh is.
bool MayPass(const MeshSbp& at, const MeshSbp& from, const MeshSbp& to) {
  const auto as_in = [&](const MeshSbp& end, size_t a) {
    return end.sub_mesh == at.sub_mesh && end.sbp[a] == at.sbp[a];
  };
  for (size_t a = 0; a < at.sbp.size(); ++a) {
    if (at.sbp[a].partial() && !as_in(from, a) && !as_in(to, a)) return false;
  }
  return true;
}

// Seconds of the cheapest way over all of them (Bellman and Ford's).
double Least(const std::vector<std::vector<double>>& step, const std::vector<MeshSbp>& all,
             size_t from, size_t to) {
  std::vector<double> least(all.size(), 1e30);
  least[from] = 0;
  for (bool better = true; better;) {
    better = false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (least[i] >= 1e30 || !MayPass(all[i], all[from], all[to])) continue;
      for (size_t j = 0; j < all.size(); ++j) {
        if (least[i] + step[i][j] >= least[j]) continue;
        least[j] = least[i] + step[i][j];
        better = true;
      }
    }
  }
  return least[to];
}

void CheckLeast(const Mesh& mesh, const On& a, const On& b, const Dims& dims,
                const proto::Cluster& cluster) {
  std::vector<MeshSbp> all;
  AddAll(mesh, a, &all);
  const size_t first_of_b = all.size();
  AddAll(mesh, b, &all);
  const BoxingPrices prices{cluster, mesh};
  std::vector<std::vector<double>> step(all.size(), std::vector<double>(all.size(), 1e30));
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      const BoxingStep s = BoxingStepBetween(prices, {dims, 4}, all[i], all[j]);
      if (i != j && !s.kind.empty()) step[i][j] = s.seconds;
    }
  }
  for (size_t i = 0; i < first_of_b; ++i) {
    for (size_t j = first_of_b; j < all.size(); ++j) {
      double seconds = 0;
      for (const BoxingStep& s : BoxingPath(prices, {dims, 4}, all[i], all[j])) {
        seconds += s.seconds;
      }
      INFO(ToString(all[i].sbp) << " to " << ToString(all[j].sbp));
      CHECK(seconds == Approx(Least(step, all, i, j)).epsilon(1e-9));
    }
  }
}

TEST_CASE("sub-mesh path: no path costs more than another that exists") {
  const Mesh four = *ParseMesh("a=4"), six = *ParseMesh("a=2,b=3");
  for (const proto::Cluster& cluster : {proto::Cluster(), Nodes()}) {
    for (const Dims& dims : {Dims{7, 11}, Dims{1009, 4099}}) {
      CheckLeast(four, On(), At("x=2,y=2"), dims, cluster);
      CheckLeast(four, At("x=3"), At("x=2", 2), dims, cluster);
      CheckLeast(six, At("x=3,y=2"), At("x=6"), dims, cluster);
    }
  }
}

// Bytes that all devices of a path receive together.
int64_t Moved(const Mesh& mesh, const Dims& dims, const MeshSbp& from, const MeshSbp& to) {
  const proto::Cluster cluster;
  int64_t elements = 0;
  MeshSbp at = from;
  for (const BoxingStep& step : BoxingPath({cluster, mesh}, {dims, 4}, from, to)) {
    const MeshSbp next{step.sub_mesh, step.to};
    if (next.sub_mesh == at.sub_mesh) {
      const Mesh& own = next.sub_mesh ? next.sub_mesh->mesh : mesh;
      const BoxingPrimitive primitive = PrimitiveBetween(own, at.sbp, next.sbp);
      for (int rank = 0; rank < own.devices(); ++rank) {
        elements += ReceivedAt({own, dims, at.sbp, next.sbp, primitive}, own.CoordinateOf(rank));
      }
    } else {
      elements += CrossingBetween(cluster, mesh, dims, 4, at, next).all;
    }
    at = next;
  }
  return 4 * elements;
}

TEST_CASE("sub-mesh path: from p devices to q others, the bytes of the textbook's table") {
  const Dims dims = {1009, 4099};
  const int64_t tensor = 4 * Product(dims);
  const Mesh mesh = *ParseMesh("a=7");
  for (const int p : {2, 3, 4}) {
    const int q = 7 - p;
    const On left = SubMesh{Mesh{{{"x", p}}}, {1}, 0}, right = SubMesh{Mesh{{{"x", q}}}, {1}, p};
    const auto moved = [&](Sbp from, Sbp to) {
      return Moved(mesh, dims, {left, {from}}, {right, {to}});
    };
    INFO(p << " to " << q);
    CHECK(moved(S(0), S(0)) == tensor);
    CHECK(moved(S(0), S(1)) == tensor);
    CHECK(moved(B(), S(0)) == tensor);
    CHECK(moved(S(0), B()) == q * tensor);
    CHECK(moved(B(), B()) == q * tensor);
    CHECK(moved(P(), S(0)) == p * tensor);
    CHECK(moved(P(), B()) == (p + q - 1) * tensor);
    CHECK(moved(S(0), P()) == tensor);
    CHECK(moved(B(), P()) == tensor);
    CHECK(moved(P(), P()) == p * tensor);
  }
}

TEST_CASE("sub-mesh path: on devices in common nothing is moved that is there") {
  const Dims dims = {1008, 4096};
  const int64_t tensor = 4 * Product(dims);
  const Mesh mesh = *ParseMesh("a=4");
  const On flat, square = At("x=2,y=2"), left = At("x=3"), right = At("x=2", 2);
  CHECK(Moved(mesh, dims, {flat, {S(0)}}, {square, {S(0), S(0)}}) == 0);
  CHECK(Moved(mesh, dims, {flat, {B()}}, {square, {S(0), S(1)}}) == 0);
  CHECK(Moved(mesh, dims, {square, {S(0), S(1)}}, {flat, {S(0)}}) == tensor / 2);
  CHECK(Moved(mesh, dims, {flat, {P()}}, {square, {B(), B()}}) == 2 * 3 * tensor);
  CHECK(Moved(mesh, dims, {left, {B()}}, {right, {B()}}) == tensor);
  CHECK(Moved(mesh, dims, {left, {B()}}, {right, {S(0)}}) == tensor / 2);
}

}  // namespace
}  // namespace oneflow
