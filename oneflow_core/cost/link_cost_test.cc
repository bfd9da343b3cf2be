#include "oneflow_core/cost/link_cost.h"

#include <catch2/catch.hpp>
#include <string>
#include <tuple>

namespace oneflow {
namespace {

// Nodes of 8 devices, 4 of them.
proto::Cluster Nodes() {
  proto::Cluster cluster;
  for (const auto& [name, size, latency, bandwidth] :
       {std::tuple("node", 8, 1e-5, 3e11), std::tuple("cluster", 4, 2e-5, 2.5e10)}) {
    proto::Level* level = cluster.add_level();
    level->set_name(name);
    level->set_size(size);
    level->set_latency(latency);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

Link AxisLink(const char* mesh, const char* axis) {
  const Mesh m = *ParseMesh(mesh);
  return LinkOfAxis(Nodes(), m, m.FindAxis(axis));
}

Link StageLink(const char* mesh, int stage, int other) {
  return LinkOfStages(Nodes(), *ParseMesh(mesh), stage, other);
}

constexpr Link kInside = {1e-5, 3e11}, kOutside = {2e-5, 2.5e10};

TEST_CASE("the last axes lie inside a node, the first across nodes") {
  CHECK(AxisLink("data=4,tensor=8", "tensor") == kInside);
  CHECK(AxisLink("data=4,tensor=8", "data") == kOutside);
  CHECK(AxisLink("pipe=2,data=2,tensor=4", "data") == kInside);
  CHECK(AxisLink("pipe=2,data=2,tensor=4", "tensor") == kInside);
  // Fewer devices than a node has are all in one.
  CHECK(AxisLink("data=3,tensor=2", "data") == kInside);
}

TEST_CASE("the level of a group is the innermost that holds all like it") {
  const Mesh mesh = *ParseMesh("pipe=2,data=2,tensor=8");
  CHECK(LevelOfAxis(Nodes(), mesh, mesh.FindAxis("tensor")) == 0);
  CHECK(LevelOfAxis(Nodes(), mesh, mesh.FindAxis("data")) == 1);
  CHECK(LevelOfStages(Nodes(), mesh, 0, 1) == 1);
  CHECK(LevelOfStages(Nodes(), *ParseMesh("pipe=2,data=2"), 0, 1) == 0);
  CHECK(LevelOfAxis({}, mesh, mesh.FindAxis("data")) == 0);
  CHECK(LinkOfLevel(Nodes(), 1) == kOutside);
}

TEST_CASE("the slowest group counts where some cross a node's border") {
  // Ranks 6 to 8 are one group of three.
  CHECK(AxisLink("data=8,tensor=3", "tensor").latency == kOutside.latency);
  CHECK(AxisLink("data=12,tensor=2", "tensor") == kInside);
}

TEST_CASE("devices of a group in one node share its links to the outside") {
  CHECK(AxisLink("data=32", "data") == Link{2e-5, 8 * 2.5e10});
  CHECK(AxisLink("data=8,tensor=4", "data") == Link{2e-5, 2 * 2.5e10});
  // Never faster than inside.
  proto::Cluster cluster = Nodes();
  cluster.mutable_level(0)->set_bandwidth(1e11);
  const Mesh mesh = *ParseMesh("data=32");
  CHECK(LinkOfAxis(cluster, mesh, 0) == Link{2e-5, 1e11});
}

TEST_CASE("stages that are neighbours in a node, and those that are not") {
  CHECK(StageLink("pipe=2,data=2,tensor=2", 0, 1) == kInside);
  CHECK(StageLink("pipe=4,data=2,tensor=4", 0, 1) == kOutside);
  CHECK(StageLink("data=4,pipe=2,tensor=4", 0, 1) == kInside);
  CHECK(StageLink("pipe=16", 0, 7) == kInside);
  CHECK(StageLink("pipe=16", 7, 8) == kOutside);
  CHECK(StageLink("pipe=16", 8, 7) == kOutside);
  // Ranks 6, 7, 8 of the third group of three: its last stage is in the second node.
  CHECK(StageLink("data=4,pipe=3", 0, 1) == kInside);
  CHECK(StageLink("data=4,pipe=3", 1, 2) == kOutside);
  // Ranks 3 to 5 and 6 to 8: only the last pair has a border between them.
  CHECK(StageLink("pipe=3,tensor=3", 1, 2) == kOutside);
}

TEST_CASE("a cluster that says nothing has one level of 1 us and 10 GB/s") {
  const Mesh mesh = *ParseMesh("pipe=2,data=2");
  CHECK(LinkOfAxis({}, mesh, 1) == Link{1e-6, 1e10});
  CHECK(LinkOfStages({}, mesh, 0, 1) == Link{1e-6, 1e10});
}

TEST_CASE("volumes of the primitives are the textbook's") {
  const double kTensor = 1200;
  CHECK(ReceivedBytes("all_gather", kTensor, 4) == 900);
  CHECK(ReceivedBytes("reduce_scatter", kTensor, 4) == 900);
  CHECK(ReceivedBytes("all_reduce", kTensor, 4) == 1800);
  CHECK(ReceivedBytes("all_to_all", kTensor, 4) == 225);
  CHECK(ReceivedBytes("transfer", kTensor, 1) == 1200);
  CHECK(ReceivedBytes("slice", kTensor, 4) == 0);
  CHECK(ReceivedBytes("zero_fill", kTensor, 4) == 0);
  // Over all devices: the table of docs/design.md's boxing, (p-1) T and so on.
  CHECK(4 * ReceivedBytes("all_gather", kTensor, 4) == 3 * kTensor);
}

TEST_CASE("seconds are latency and bytes over bandwidth; one device moves nothing") {
  const Link link = {1e-5, 1e9};
  CHECK(PrimitiveSeconds("all_gather", 4e6, 4, link) == Approx(1e-5 + 3e-3).epsilon(1e-12));
  CHECK(PrimitiveSeconds("transfer", 1e6, 1, link) == Approx(1e-5 + 1e-3).epsilon(1e-12));
  CHECK(PrimitiveSeconds("all_reduce", 1e6, 1, link) == 0);
  CHECK(PrimitiveSeconds("slice", 1e6, 8, link) == 0);
}

}  // namespace
}  // namespace oneflow
