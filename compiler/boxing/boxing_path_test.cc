// Boxing paths: from every nd-SBP to every other, by steps that peers can make, no dearer than any
// other way, and with the bytes of the textbook. That real data arrives: tests/e2e/boxing_test.cc.
#include "compiler/boxing/boxing_path.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "compiler/boxing/boxing_primitive.h"
#include "compiler/boxing/stand_in.h"
#include "compiler/sbp/transition_cost.h"
#include "oneflow_core/tensor/all_sbps.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

const std::vector<Sbp> kMatrix = {B(), S(0), S(1), P(), PMax()};

// Nodes of `node` devices, with slow links between them.
proto::Cluster Nodes(int node, proto::Device::Kind kind) {
  proto::Cluster cluster;
  cluster.mutable_device()->set_kind(kind);
  proto::Level* inside = cluster.add_level();
  inside->set_size(node);
  inside->set_latency(1e-6);
  inside->set_bandwidth(1e11);
  proto::Level* outside = cluster.add_level();
  outside->set_size(1000);
  outside->set_latency(5e-6);
  outside->set_bandwidth(1e9);
  return cluster;
}

// Whether one primitive along `along` can make the step: what a device will hold must lie with the
// devices that differ from it on those axes only. Told from the geometry, not from the rule.
bool PeersHold(const Mesh& mesh, const Dims& dims, const std::vector<int>& along, const NdSbp& from,
               const NdSbp& to, bool fills) {
  const Layout before = MakeLayout(dims, from), after = MakeLayout(dims, to);
  for (int rank = 0; rank < mesh.devices(); ++rank) {
    const Slice wanted = LocalSlice(after, mesh, mesh.RankToCoordinate(rank));
    const Slice own = LocalSlice(before, mesh, mesh.RankToCoordinate(rank));
    if (fills) {
      if (!(Intersect(wanted, own) == own)) return false;
      continue;
    }
    int64_t found = 0;
    for (int peer : mesh.Peers(mesh.RankToCoordinate(rank), along)) {
      found += Intersect(wanted, LocalSlice(before, mesh, mesh.RankToCoordinate(peer))).elements();
    }
    if (found < wanted.elements()) return false;
  }
  return true;
}

void CheckPath(const Mesh& mesh, const proto::Cluster& cluster, const Dims& dims, const NdSbp& from,
               const NdSbp& to) {
  NdSbp at = from;
  for (const BoxingStep& step : BoxingPath({cluster, mesh}, {dims, 4}, from, to)) {
    INFO(ToString(mesh) << ": " << ToString(from) << " to " << ToString(to) << " by "
                        << ToString(step.to));
    const BoxingPrimitive primitive = PrimitiveBetween(mesh, at, step.to);
    CHECK(step.kind == primitive.kind);
    CHECK(PeersHold(mesh, dims, primitive.along, at, step.to, step.kind == "zero_fill"));
    at = step.to;
  }
  CHECK(at == to);
}

TEST_CASE("boxing path: from every SBP on two axes to every other, by steps that peers can make") {
  for (const std::string text : {"a=2,b=2", "a=2,b=3", "a=4,b=2"}) {
    const Mesh mesh = *ParseMesh(text);
    for (const proto::Cluster& cluster :
         {proto::Cluster(), Nodes(mesh.axes[1].size, proto::Device::CPU),
          Nodes(mesh.axes[1].size, proto::Device::CUDA)}) {
      for (const NdSbp& from : AllSbps({kMatrix, kMatrix})) {
        for (const NdSbp& to : AllSbps({kMatrix, kMatrix}))
          CheckPath(mesh, cluster, {11, 13}, from, to);
      }
    }
  }
}

TEST_CASE("boxing path: on three axes, too; a fixed sample of the pairs") {
  const Mesh mesh = *ParseMesh("a=2,b=3,c=2");
  const std::vector<Sbp> choices = {B(), S(0), S(1), S(2), P(), PMax()};
  const std::vector<NdSbp> all = AllSbps({choices, choices, choices});
  std::mt19937 random(20261121);
  for (int i = 0; i < 300; ++i) {
    CheckPath(mesh, Nodes(2, proto::Device::CUDA), {13, 17, 5}, all[random() % all.size()],
              all[random() % all.size()]);
  }
}

// True if a path from `from` to `to` may pass `at`: partial only where an end is. (A sum with zeros
// could stand for a copy, but would make +0 of -0.)
bool MayPass(const NdSbp& at, const NdSbp& from, const NdSbp& to) {
  for (size_t a = 0; a < at.size(); ++a) {
    if (at[a].partial() && !(at[a] == from[a]) && !(at[a] == to[a])) return false;
  }
  return true;
}

using Matrix = std::vector<std::vector<double>>;

// Seconds of every primitive there is.
Matrix Primitives(const BoxingCosts& costs, const BoxedTensor& tensor,
                  const std::vector<NdSbp>& all) {
  Matrix seconds(all.size(), std::vector<double>(all.size(), 1e30));
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      const BoxingStep step = BoxingStepBetween(costs, tensor, all[i], all[j]);
      if (i != j && !step.kind.empty()) seconds[i][j] = step.seconds;
    }
  }
  return seconds;
}

// The cost of the cheapest path over all of them, by the Bellman-Ford algorithm.
double Least(const Matrix& step, const std::vector<NdSbp>& all, size_t from, size_t to) {
  std::vector<double> least(all.size(), 1e30);
  least[from] = 0;
  for (bool better = true; better;) {
    better = false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!MayPass(all[i], all[from], all[to])) continue;
      for (size_t j = 0; j < all.size(); ++j) {
        if (least[i] + step[i][j] >= least[j]) continue;
        least[j] = least[i] + step[i][j];
        better = true;
      }
    }
  }
  return least[to];
}

TEST_CASE("boxing path: no path costs more than another that exists") {
  for (const std::string text : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3"}) {
    const Mesh mesh = *ParseMesh(text);
    const std::vector<NdSbp> all = AllSbps(std::vector(mesh.axes.size(), kMatrix));
    for (const proto::Cluster& cluster :
         {proto::Cluster(), Nodes(2, proto::Device::CPU), Nodes(2, proto::Device::CUDA)}) {
      // Small: latencies decide; large: bytes. No part is empty.
      for (const Dims& dims : {Dims{7, 11}, Dims{1009, 4099}}) {
        const BoxingCosts costs{cluster, mesh};
        const Matrix step = Primitives(costs, {dims, 4}, all);
        for (size_t i = 0; i < all.size(); ++i) {
          for (size_t j = 0; j < all.size(); ++j) {
            double seconds = 0;
            for (const BoxingStep& s : BoxingPath(costs, {dims, 4}, all[i], all[j])) {
              seconds += s.seconds;
            }
            INFO(text << ": " << ToString(all[i]) << " to " << ToString(all[j]));
            CHECK(seconds == Approx(Least(step, all, i, j)).epsilon(1e-9));
          }
        }
      }
    }
  }
}

// Bytes that all devices of a path receive together.
int64_t BytesMoved(const Mesh& mesh, const Dims& dims, const NdSbp& from, const NdSbp& to) {
  const proto::Cluster cluster;
  int64_t elements = 0;
  NdSbp at = from;
  for (const BoxingStep& step : BoxingPath({cluster, mesh}, {dims, 4}, from, to)) {
    const BoxingPrimitive primitive = PrimitiveBetween(mesh, at, step.to);
    for (int rank = 0; rank < mesh.devices(); ++rank) {
      elements += ReceivedAt({mesh, dims, at, step.to, primitive}, mesh.RankToCoordinate(rank));
    }
    at = step.to;
  }
  return 4 * elements;
}

TEST_CASE("boxing path: bytes moved are those of the textbook's table") {
  for (const int p : {2, 3, 4, 8}) {
    const Mesh mesh{{{"x", p}}};
    const auto moved = [&](const Dims& dims, Sbp from, Sbp to) {
      return BytesMoved(mesh, dims, {from}, {to});
    };
    const Dims ragged = {1009, 4099}, even = {1008, 4096};
    const int64_t tensor = 4 * Product(ragged);
    INFO("p = " << p);
    CHECK(moved(ragged, S(0), B()) == (p - 1) * tensor);
    CHECK(moved(ragged, P(), B()) == 2 * (p - 1) * tensor);
    CHECK(moved(ragged, P(), S(1)) == (p - 1) * tensor);
    CHECK(moved(ragged, PMax(), B()) == 2 * (p - 1) * tensor);
    CHECK(moved(ragged, B(), S(0)) == 0);
    CHECK(moved(ragged, B(), P()) == 0);
    CHECK(moved(ragged, S(0), P()) == 0);
    CHECK(moved(even, S(0), S(1)) == 4 * Product(even) / p * (p - 1));
  }
}

TEST_CASE("boxing path: no step for equal SBPs, one where one does") {
  const Mesh mesh = *ParseMesh("data=2,tensor=2");
  const proto::Cluster cluster;
  const auto steps = [&](const NdSbp& from, const NdSbp& to) {
    return BoxingPath({cluster, mesh}, {{8, 8}, 4}, from, to).size();
  };
  CHECK(steps({S(0), P()}, {S(0), P()}) == 0);
  CHECK(steps({S(0), P()}, {S(0), B()}) == 1);
  CHECK(steps({B(), S(1)}, {B(), S(0)}) == 1);
  // One device splits nothing.
  CHECK(PrimitiveBetween(*ParseMesh("data=2,one=1"), {S(0), S(0)}, {B(), S(0)}).kind ==
        "all_gather");
  // An inner axis splits the same dimension: only the two together can exchange.
  CHECK(steps({S(0), S(0)}, {B(), S(0)}) == 1);
  CHECK(steps({S(0), S(1)}, {S(1), S(0)}) == 1);
}

TEST_CASE("boxing path: axes of one device, too, from every SBP to every other") {
  for (const std::string text : {"one=1", "one=1,a=2", "a=2,one=1"}) {
    const Mesh mesh = *ParseMesh(text);
    const std::vector<NdSbp> all = AllSbps(std::vector(mesh.axes.size(), kMatrix));
    for (const NdSbp& from : all) {
      for (const NdSbp& to : all) CheckPath(mesh, {}, {11, 13}, from, to);
    }
  }
}

TEST_CASE("boxing path: on accelerators a step takes the slowest of its links, and no firing") {
  proto::Cluster cluster = Nodes(2, proto::Device::CUDA);
  // Firings are issued ahead.
  cluster.mutable_device()->set_firing_seconds(3e-6);
  cluster.mutable_device()->set_memory_bandwidth(1e10);
  const Mesh mesh = *ParseMesh("one=1,data=2,tensor=2");
  const auto seconds = [&](const NdSbp& from, const NdSbp& to) {
    return BoxingStepBetween({cluster, mesh}, {{8, 8}, 4}, from, to).seconds;
  };
  const NdSbp replicated = {B(), B(), B()};
  CHECK(seconds({B(), B(), S(0)}, replicated) == Approx(1e-6 + 128 / 1e11));
  CHECK(seconds({B(), S(0), B()}, replicated) == Approx(5e-6 + 128 / 1e9));
  // Nothing is received: a kernel that copies.
  CHECK(seconds(replicated, {B(), S(0), B()}) == Approx(2 * 128 / 1e10));
  CHECK(seconds({S(0), B(), B()}, replicated) == Approx(2 * 256 / 1e10));
}

TEST_CASE("boxing path: in a process of CPUs a step takes a firing and its copy or sum") {
  proto::Cluster cluster = Nodes(4, proto::Device::CPU);
  cluster.mutable_device()->set_firing_seconds(3e-6);
  cluster.mutable_device()->set_memory_bandwidth(1e10);
  const Mesh mesh = *ParseMesh("data=2,tensor=2");
  const auto seconds = [&](const NdSbp& from, const NdSbp& to) {
    return BoxingStepBetween({cluster, mesh}, {{8, 8}, 4}, from, to).seconds;
  };
  const NdSbp replicated = {B(), B()};
  CHECK(seconds({B(), S(0)}, replicated) == Approx(3e-6 + 2 * 256 / 1e10));
  CHECK(seconds({S(0), B()}, replicated) == Approx(3e-6 + 2 * 256 / 1e10));
  CHECK(seconds({B(), P()}, replicated) == Approx(3e-6 + 3 * 256 / 1e10));
  CHECK(seconds({P(), B()}, {S(0), B()}) == Approx(3e-6 + 3 * 128 / 1e10));
  CHECK(seconds(replicated, {B(), S(0)}) == Approx(3e-6 + 2 * 128 / 1e10));
}

TEST_CASE("boxing path: the search of SBPs sees its costs, where parts are even") {
  proto::Cluster cluster = Nodes(4, proto::Device::CUDA);
  cluster.mutable_device()->set_firing_seconds(3e-6);
  for (const int p : {2, 4, 8}) {
    const Mesh mesh{{{"x", p}}};
    for (const Dims& dims : {Dims{16, 16}, Dims{4096, 1024}}) {
      for (const Sbp from : kMatrix) {
        for (const Sbp to : kMatrix) {
          if (from.partial() && to.partial()) continue;
          double seconds = 0;
          for (const BoxingStep& s : BoxingPath({cluster, mesh}, {dims, 4}, {from}, {to})) {
            seconds += s.seconds;
          }
          INFO(p << ": " << ToString(from) << " to " << ToString(to));
          const double bytes = 4 * static_cast<double>(Product(dims));
          CHECK(TransitionCosts(cluster, mesh, 0).Seconds(from, to, bytes, DType::kF32) ==
                Approx(seconds));
        }
      }
    }
  }
}

TEST_CASE("boxing path: of many devices the one that receives most is found") {
  for (const int p : {17, 24, 31}) {
    const Mesh mesh{{{"x", p}}};
    for (const Dims& dims : {Dims{40, 100}, Dims{100, 33}, Dims{18, 70}}) {
      for (const auto& [from, to] : {std::pair(S(0), S(1)), std::pair(S(0), B())}) {
        const NdSbp before = {from}, after = {to};
        const BoxingPrimitive primitive = PrimitiveBetween(mesh, before, after);
        const BoxingMove move{mesh, dims, before, after, primitive};
        int64_t most = 0;
        for (int i = 0; i < p; ++i) most = std::max(most, ReceivedAt(move, {i}));
        INFO(p << ": " << ToString(dims) << " to " << ToString(to));
        CHECK(MostReceived(move) == most);
      }
    }
  }
}

TEST_CASE("boxing path: of several axes the device that receives most is found") {
  const Mesh mesh = *ParseMesh("a=2,b=3,c=2");
  const std::vector<NdSbp> all = AllSbps({kMatrix, kMatrix, kMatrix});
  for (const Dims& dims : {Dims{24, 36}, Dims{13, 17}, Dims{5, 4}}) {
    for (const NdSbp& from : all) {
      for (const NdSbp& to : all) {
        const BoxingPrimitive primitive = PrimitiveBetween(mesh, from, to);
        if (primitive.along.empty()) continue;
        const BoxingMove move{mesh, dims, from, to, primitive};
        // Those whose axes beside the primitive's are at 0.
        int64_t most = 0;
        for (int rank = 0; rank < mesh.devices(); ++rank) {
          const Coordinate c = mesh.RankToCoordinate(rank);
          bool counts = true;
          for (int a = 0; a < 3; ++a) {
            const auto& along = primitive.along;
            counts = counts && (c[a] == 0 || std::count(along.begin(), along.end(), a) > 0);
          }
          if (counts) most = std::max(most, ReceivedAt(move, c));
        }
        INFO(ToString(dims) << ": " << ToString(from) << " to " << ToString(to));
        CHECK(MostReceived(move) == most);
      }
    }
  }
}

TEST_CASE("boxing path: zeros are filled in, over the slowest of links") {
  const Mesh mesh{{{"x", 4}}};
  proto::Cluster cluster = Nodes(4, proto::Device::CUDA);
  for (proto::Level& level : *cluster.mutable_level()) level.set_bandwidth(1e3);
  const std::vector<BoxingStep> steps = BoxingPath({cluster, mesh}, {{64, 64}, 4}, {S(0)}, {P()});
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].kind == "zero_fill");
}

TEST_CASE("boxing path: large sums over many devices go in pieces, small ones at once") {
  const Mesh mesh{{{"tensor", 4}}};
  const proto::Cluster cluster = ClusterForBoxing({});
  const auto kinds = [&](const Dims& dims) {
    std::string text;
    for (const BoxingStep& s : BoxingPath({cluster, mesh}, {dims, 4}, {P()}, {B()})) {
      text += std::string(s.kind) + ToString(s.to) + " ";
    }
    return text;
  };
  CHECK(kinds({16, 16}) == "all_reduceB ");
  CHECK(kinds({1024, 64}) == "reduce_scatterS(0) all_gatherB ");
  CHECK(kinds({2, 32768}) == "reduce_scatterS(1) all_gatherB ");
  CHECK(kinds({3, 3}) == "all_reduceB ");
}

TEST_CASE("boxing path: no intermediate part is empty unless one at an end is") {
  const proto::Cluster cluster;
  constexpr int64_t kElement = 1 << 20;  // bytes: what is received decides
  const auto path = [&](const char* mesh, const Dims& dims, const NdSbp& from, const NdSbp& to) {
    std::string text;
    const Mesh on = *ParseMesh(mesh);
    for (const BoxingStep& s : BoxingPath({cluster, on}, {dims, kElement}, from, to)) {
      text += ToString(s.to) + " ";
    }
    return text;
  };
  // A sum goes in pieces where each device gets one.
  CHECK(path("x=4", {4}, {P()}, {B()}) == "S(0) B ");
  CHECK(path("x=4", {3}, {P()}, {B()}) == "B ");
  CHECK(path("x=4", {3}, {P()}, {S(0)}) == "S(0) ");
  CHECK(path("x=4", {3}, {S(0)}, {B()}) == "B ");
  // Two axes may split a dimension by turns, and not together.
  CHECK(path("x=2,y=2", {4}, {S(0), P()}, {B(), S(0)}) == "(S(0),S(0)) (B,S(0)) ");
  CHECK(path("x=2,y=2", {3}, {S(0), P()}, {B(), S(0)}) == "(S(0),B) (B,S(0)) ");
  // A part that is empty at an end may be empty in between.
  CHECK(path("x=4,y=4", {3, 4}, {S(0), P()}, {S(0), B()}) == "(S(0),S(1)) (S(0),B) ");
}

TEST_CASE("boxing path: what crosses nodes is split inside of them first") {
  // Each of the four devices of a node would fetch all of it from the other node: split, each
  // fetches a quarter, and they exchange quarters over their fast links.
  const Mesh mesh = *ParseMesh("data=2,tensor=4");
  const proto::Cluster cluster = Nodes(4, proto::Device::CUDA);
  const auto path = BoxingPath({cluster, mesh}, {{4096, 4096}, 4}, {S(0), B()}, {B(), B()});
  REQUIRE(path.size() == 2);
  CHECK(path[0].kind == "all_to_all");
  CHECK(path[0].to == NdSbp{B(), S(1)});
  CHECK(path[1].kind == "all_gather");
  // On one level of links that only adds steps.
  CHECK(BoxingPath({proto::Cluster(), mesh}, {{4096, 4096}, 4}, {S(0), B()}, {B(), B()}).size() ==
        1);
}

}  // namespace
}  // namespace oneflow
