#include "oneflow_core/cost/link_cost.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace oneflow {
namespace {

// Nodes of 8 devices, 4 of them.
proto::Cluster Nodes() {
  proto::Cluster cluster;
  cluster.mutable_device()->set_kind(proto::Device::CUDA);
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

// Once around a ring of one protocol.
Link RingLink(const GroupLinks& links) {
  Link ring{0, std::numeric_limits<double>::infinity()};
  for (const LevelLinks& level : links.levels) {
    ring.latency += level.steps * level.protocols.front().ring_step;
    ring.bandwidth = std::min(ring.bandwidth, level.ring_bandwidth);
  }
  return ring;
}

Link AxisLink(const char* mesh, const char* axis) {
  const Mesh m = *ParseMesh(mesh);
  return RingLink(LinksOfGroup(Nodes(), m, {m.FindAxis(axis)}));
}

Link StageLink(const char* mesh, int stage, int other) {
  return RingLink(LinksOfStages(Nodes(), *ParseMesh(mesh), stage, other));
}

GroupLinks Along(const proto::Cluster& cluster, const char* mesh,
                 const std::vector<std::string>& names) {
  const Mesh m = *ParseMesh(mesh);
  std::vector<int> axes;
  for (const std::string& name : names) axes.push_back(m.FindAxis(name));
  return LinksOfGroup(cluster, m, axes);
}

constexpr Link kInside = {1e-5, 3e11}, kOutside = {2e-5, 2.5e10};

// 1 us and 10 GB/s inside nodes of 4, 10 us and 1 GB/s between them; one protocol of no start.
proto::Cluster RoundNumbers() {
  proto::Cluster cluster;
  cluster.mutable_device()->set_kind(proto::Device::CUDA);
  for (const auto& [size, latency, bandwidth] :
       {std::tuple(4, 1e-6, 1e10), std::tuple(0, 1e-5, 1e9)}) {
    proto::Level* level = cluster.add_level();
    level->set_size(size);
    level->set_latency(latency);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

double Seconds(std::string_view primitive, double tensor_bytes, const GroupLinks& links) {
  return ExchangeSeconds(primitive, ReceivedBytes(primitive, tensor_bytes, links.devices), links);
}

TEST_CASE("a ring takes a latency a step") {
  const GroupLinks two = Along(RoundNumbers(), "tensor=2", {"tensor"});
  CHECK(Seconds("all_gather", 2e6, two) == Approx(1e-6 + 1e6 / 1e10));
  CHECK(Seconds("reduce_scatter", 2e6, two) == Approx(1e-6 + 1e6 / 1e10));
  CHECK(Seconds("all_reduce", 2e6, two) == Approx(2e-6 + 2e6 / 1e10));
  const GroupLinks four = Along(RoundNumbers(), "tensor=4", {"tensor"});
  CHECK(Seconds("all_gather", 4e6, four) == Approx(3e-6 + 3e6 / 1e10));
  CHECK(Seconds("all_reduce", 4e6, four) == Approx(6e-6 + 6e6 / 1e10));
  CHECK(Seconds("all_to_all", 4e6, four) == Approx(3e-6 + 0.75e6 / 1e10));
  // 192 nodes, one device of the group in each: 191 steps between nodes, and one port.
  const GroupLinks many = Along(RoundNumbers(), "data=192,tensor=4", {"data"});
  CHECK(many.devices == 192);
  CHECK(Seconds("all_gather", 192e6, many) == Approx(191e-5 + 191e6 / 1e9));
}

TEST_CASE("a ring through nodes crosses few links between them, through all its ports") {
  // Three nodes of four: 11 steps, 2 of them between nodes; 4 ports of 1 GB/s.
  const GroupLinks all = Along(RoundNumbers(), "data=12", {"data"});
  REQUIRE(all.levels.size() == 2);
  CHECK(all.levels[0].steps == 9);
  CHECK(all.levels[1].steps == 2);
  CHECK(Seconds("all_gather", 12e6, all) == Approx(9e-6 + 2e-5 + 11e6 / 4e9));
  // Two groups in a node have half of its ports each.
  const GroupLinks half = Along(RoundNumbers(), "data=6,tensor=2", {"data"});
  CHECK(Seconds("all_gather", 6e6, half) == Approx(3e-6 + 2e-5 + 5e6 / 2e9));
  // Never faster than inside.
  proto::Cluster slow = RoundNumbers();
  slow.mutable_level(0)->set_bandwidth(3e9);
  CHECK(Seconds("all_gather", 12e6, Along(slow, "data=12", {"data"})) ==
        Approx(9e-6 + 2e-5 + 11e6 / 3e9));
}

TEST_CASE("devices of a node share its ports where it has fewer") {
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_level(1)->set_ports(2);
  // One group has both; four groups have half a port each.
  CHECK(Seconds("all_gather", 12e6, Along(cluster, "data=12", {"data"})) ==
        Approx(9e-6 + 2e-5 + 11e6 / 2e9));
  CHECK(Seconds("all_gather", 3e6, Along(cluster, "data=3,tensor=4", {"data"})) ==
        Approx(2e-5 + 2e6 / 0.5e9));
  const Mesh mesh = *ParseMesh("pipe=2,tensor=4");
  CHECK(Seconds("transfer", 1e6, LinksOfStages(cluster, mesh, 0, 1)) == Approx(1e-5 + 1e6 / 0.5e9));
  // Only two devices: each has a port.
  const Mesh small = *ParseMesh("pipe=2");
  cluster.mutable_level(0)->set_size(1);
  CHECK(Seconds("transfer", 1e6, LinksOfStages(cluster, small, 0, 1)) == Approx(1e-5 + 1e6 / 1e9));
}

TEST_CASE("groups along several axes") {
  // data and tensor are neighbours: one group of 8 in two nodes.
  const GroupLinks both = Along(RoundNumbers(), "pipe=3,data=2,tensor=4", {"data", "tensor"});
  CHECK(both.devices == 8);
  CHECK(Seconds("all_gather", 8e6, both) == Approx(6e-6 + 1e-5 + 7e6 / 4e9));
  // pipe and tensor have data between them: 2 of 4 devices of a node, and 2 nodes.
  const GroupLinks apart = Along(RoundNumbers(), "pipe=2,data=2,tensor=2", {"pipe", "tensor"});
  CHECK(apart.devices == 4);
  CHECK(Seconds("all_gather", 4e6, apart) == Approx(2e-6 + 1e-5 + 3e6 / 2e9));
  CHECK(Along(RoundNumbers(), "data=1,tensor=4", {"data"}).devices == 1);
  CHECK(Seconds("all_gather", 4e6, Along(RoundNumbers(), "data=1,tensor=4", {"data"})) == 0);
}

TEST_CASE("a sum of all goes by a tree where that is cheaper") {
  // 64 nodes of one device of the group. Ring: 126 steps; tree: 6 up and 6 down, 2 T.
  const GroupLinks links = Along(RoundNumbers(), "data=64,tensor=4", {"data"});
  CHECK(Seconds("all_reduce", 1e3, links) == Approx(12e-5 + 2e3 / 1e9));
  CHECK(Seconds("all_reduce", 1e9, links) == Approx(126e-5 + 2 * 63.0 / 64 * 1e9 / 1e9));
  // Inside a node the tree is a chain: 3 steps up and 3 down, no better than a ring.
  const GroupLinks inside = Along(RoundNumbers(), "data=4", {"data"});
  CHECK(inside.levels[0].tree_steps == 3);
  CHECK(Seconds("all_reduce", 4e6, inside) == Approx(6e-6 + 6e6 / 1e10));
  // Gathering has no tree.
  CHECK(Seconds("all_gather", 64e3, links) == Approx(63e-5 + 63e3 / 1e9));
}

TEST_CASE("each size takes its cheapest protocol") {
  proto::Cluster cluster = RoundNumbers();
  const auto add = [](proto::Level* level, double start, double step, double share, double tree) {
    proto::Protocol* p = level->add_protocol();
    p->set_ring_start(start);
    p->set_ring_step(step);
    p->set_ring_share(share);
    p->set_tree_start(start);
    p->set_tree_step(tree);
    p->set_tree_share(share);
  };
  for (const int l : {0, 1}) {
    const double far = l == 0 ? 1 : 10;
    add(cluster.mutable_level(l), 1e-6, far * 1e-7, 0.25, far * 2e-7);
    add(cluster.mutable_level(l), 4e-6, far * 1e-6, 1, far * 2e-6);
  }
  const GroupLinks links = Along(cluster, "tensor=4", {"tensor"});
  CHECK(Seconds("all_gather", 4e3, links) == Approx(1e-6 + 3e-7 + 3e3 / 0.25e10));
  CHECK(Seconds("all_gather", 4e6, links) == Approx(4e-6 + 3e-6 + 3e6 / 1e10));
  // With one device a node the ring exposes the latency of the tree.
  const GroupLinks far = Along(cluster, "data=3,tensor=4", {"data"});
  CHECK(Seconds("all_gather", 3e6, far) == Approx(4e-6 + 2 * 2e-5 + 2e6 / 1e9));
  const GroupLinks two = Along(cluster, "data=6,tensor=2", {"data"});
  CHECK(Seconds("all_gather", 6e6, two) == Approx(4e-6 + 3 * 1e-6 + 2 * 1e-5 + 5e6 / 2e9));
}

TEST_CASE("in all_to_all each device leaves its node through its own port") {
  // 8 devices in two nodes; of 7 peers 4 are in the other node.
  const GroupLinks links = Along(RoundNumbers(), "data=8", {"data"});
  const double received = 7e6;
  CHECK(ExchangeSeconds("all_to_all", received, links) == Approx(6e-6 + 1e-5 + 4e6 / 1e9));
}

TEST_CASE("groups lose a part of the bandwidth with each doubling of the nodes that they span") {
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_level(1)->set_congestion(0.2);
  const auto gather = [&](const char* mesh, double received) {
    const GroupLinks links = Along(cluster, mesh, {"data"});
    return ExchangeSeconds("all_gather", received, links);
  };
  CHECK(gather("data=2,tensor=4", 1e6) == Approx(1e-5 + 1e6 / 0.8e9));
  CHECK(gather("data=4,tensor=4", 1e6) == Approx(3e-5 + 1e6 / 0.64e9));
  CHECK(gather("data=8,tensor=4", 1e6) == Approx(7e-5 + 1e6 / 0.512e9));
  CHECK(gather("data=3,tensor=4", 1e6) == Approx(2e-5 + 1e6 / (1e9 * std::pow(0.8, std::log2(3)))));
  // All ports of four nodes; a group inside a node loses nothing.
  CHECK(gather("data=16", 1e6) == Approx(12e-6 + 3e-5 + 1e6 / (4 * 0.64e9)));
  CHECK(gather("data=4", 1e6) == Approx(3e-6 + 1e6 / 1e10));
  // A pair of stages spans two nodes, in which 4 of the 7 peers of an all_to_all are, too.
  CHECK(Seconds("transfer", 1e6, LinksOfStages(cluster, *ParseMesh("pipe=2,data=4"), 0, 1)) ==
        Approx(1e-5 + 1e6 / 0.8e9));
  CHECK(ExchangeSeconds("all_to_all", 7e6, Along(cluster, "data=8", {"data"})) ==
        Approx(6e-6 + 1e-5 + 4e6 / 0.8e9));
  // Two latencies of a tree to each of 64 nodes, six doublings of them.
  CHECK(Seconds("all_reduce", 1e3, Along(cluster, "data=64,tensor=4", {"data"})) ==
        Approx(12e-5 + 2e3 / (1e9 * std::pow(0.8, 6))));
}

TEST_CASE("an exchange keeps processors busy as the busiest level it crosses") {
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_level(0)->set_processor_usage(0.15);
  cluster.mutable_level(1)->set_processor_usage(0.02);
  CHECK(ProcessorUsage(Along(cluster, "data=12", {"data"})) == 0.15);
  CHECK(ProcessorUsage(Along(cluster, "data=3,tensor=4", {"data"})) == 0.02);
  CHECK(ProcessorUsage(Along(cluster, "data=1,tensor=4", {"data"})) == 0);
}

TEST_CASE("exchanges of a system within a node keep busy what it says") {
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_level(0)->set_processor_usage(0.3);
  cluster.mutable_level(1)->set_processor_usage(0.02);
  cluster.add_system()->set_name("one");
  cluster.mutable_system(0)->set_processor_usage(0.15);
  cluster.add_system()->set_name("two");
  const auto usage = [&](const char* system, const char* axis) {
    cluster.set_as_system(system);
    return ProcessorUsage(Along(cluster, "data=3,tensor=4", {axis}));
  };
  CHECK(usage("", "tensor") == 0.3);
  CHECK(usage("one", "tensor") == 0.15);
  CHECK(usage("one", "data") == 0.02);
  CHECK(usage("two", "tensor") == 0.3);
}

TEST_CASE("CPU devices take one latency, and a process has one port") {
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_device()->set_kind(proto::Device::CPU);
  CHECK(Seconds("all_gather", 4e6, Along(cluster, "data=4", {"data"})) ==
        Approx(1e-6 + 3e6 / 1e10));
  CHECK(Seconds("all_reduce", 4e6, Along(cluster, "data=4", {"data"})) ==
        Approx(1e-6 + 6e6 / 1e10));
  CHECK(Seconds("all_gather", 12e6, Along(cluster, "data=12", {"data"})) ==
        Approx(1e-5 + 11e6 / 1e9));
  CHECK(Seconds("all_gather", 3e6, Along(cluster, "data=3,tensor=4", {"data"})) ==
        Approx(1e-5 + 2e6 / 0.25e9));
}

TEST_CASE("the last axes are inside a node, the first across nodes") {
  CHECK(AxisLink("data=4,tensor=8", "tensor").latency == Approx(7 * kInside.latency));
  CHECK(AxisLink("data=4,tensor=8", "tensor").bandwidth == kInside.bandwidth);
  CHECK(AxisLink("data=4,tensor=8", "data").latency == Approx(3 * kOutside.latency));
  CHECK(AxisLink("data=4,tensor=8", "data").bandwidth == kOutside.bandwidth);
  CHECK(AxisLink("pipe=2,data=2,tensor=4", "data") == kInside);
  CHECK(AxisLink("pipe=2,data=2,tensor=4", "tensor").bandwidth == kInside.bandwidth);
  // Fewer devices than a node has are all in one.
  CHECK(AxisLink("data=3,tensor=2", "data").latency == Approx(2 * kInside.latency));
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
  // Ranks 6 to 8 are one group of three: one step inside a node, one between nodes, one port.
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_level(0)->set_size(8);
  CHECK(Seconds("all_gather", 3e6, Along(cluster, "data=8,tensor=3", {"tensor"})) ==
        Approx(1e-6 + 1e-5 + 2e6 / 1e9));
  CHECK(AxisLink("data=12,tensor=2", "tensor") == kInside);
  // Groups of 12 in nodes of 8 are in two each, with 4 members or more in one.
  const GroupLinks twelve = Along(cluster, "pipe=2,data=12", {"data"});
  CHECK(Seconds("all_gather", 12e6, twelve) == Approx(10e-6 + 1e-5 + 11e6 / 4e9));
}

TEST_CASE("groups do not straddle units where few devices idle") {
  proto::Cluster racks = Nodes();
  racks.mutable_level(0)->set_size(72);
  racks.mutable_level(1)->clear_size();
  const auto crosses = [](const proto::Cluster& cluster, const char* mesh, const char* axis) {
    return Along(cluster, mesh, {axis}).levels.size() > 1;
  };
  // Groups of 32 take 64 of a rack, and the same devices of two groups are 32 apart in it.
  CHECK(!crosses(racks, "data=8,expert=32", "expert"));
  const GroupLinks data = Along(racks, "data=8,expert=32", {"data"});
  REQUIRE(data.levels.size() == 2);
  CHECK(data.levels[0].steps == 4);  // two of eight in each of four racks
  CHECK(data.levels[1].steps == 3);
  const Mesh staged = *ParseMesh("pipe=4,expert=32");
  CHECK(LevelOfStages(racks, staged, 0, 1) == 0);
  CHECK(LevelOfStages(racks, staged, 1, 2) == 1);
  CHECK(LevelOfAxis(racks, *ParseMesh("data=8,expert=32"), 1) == 0);
  // Groups that fill a rack leave none idle; groups of 48 would leave a third.
  CHECK(!crosses(racks, "data=8,expert=36", "expert"));
  CHECK(crosses(racks, "data=8,expert=48", "expert"));
  CHECK(crosses(racks, "data=2,expert=96", "expert"));
  // Of a node 7 of 8 are enough, 6 are not.
  proto::Cluster nodes = Nodes();
  CHECK(!crosses(nodes, "data=4,tensor=7", "tensor"));
  CHECK(crosses(nodes, "data=5,tensor=6", "tensor"));
  // A job that needs all devices of a cluster takes them; and CPUs fill their processes.
  racks.mutable_level(1)->set_size(3);
  CHECK(!crosses(racks, "data=9,expert=16", "expert"));
  racks.mutable_level(1)->set_size(2);
  CHECK(crosses(racks, "data=9,expert=16", "expert"));
  nodes.mutable_device()->set_kind(proto::Device::CPU);
  CHECK(LevelOfAxis(nodes, *ParseMesh("data=4,tensor=7"), 1) == 1);
}

TEST_CASE("three levels") {
  proto::Cluster cluster = RoundNumbers();
  cluster.mutable_level(1)->set_size(2);  // racks of 2 nodes of 4
  proto::Level* rows = cluster.add_level();
  rows->set_latency(1e-4);
  rows->set_bandwidth(1e8);
  const GroupLinks links = Along(cluster, "data=16", {"data"});
  REQUIRE(links.levels.size() == 3);
  CHECK(Seconds("all_gather", 16e6, links) == Approx(12e-6 + 2e-5 + 1e-4 + 15e6 / 8e8));
  CHECK(links.levels[2].tree_steps == 1);
}

TEST_CASE("stages that are neighbours in a node, and those that are not") {
  CHECK(StageLink("pipe=2,data=2,tensor=2", 0, 1) == kInside);
  CHECK(StageLink("pipe=4,data=2,tensor=4", 0, 1).latency == kOutside.latency);
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
  CHECK(RingLink(LinksOfGroup({}, mesh, {1})) == Link{1e-6, 1e10});
  CHECK(RingLink(LinksOfStages({}, mesh, 0, 1)) == Link{1e-6, 1e10});
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

TEST_CASE("a transfer is one step; one device moves nothing") {
  const Mesh mesh = *ParseMesh("pipe=2");
  CHECK(Seconds("transfer", 1e6, LinksOfStages(RoundNumbers(), mesh, 0, 1)) ==
        Approx(1e-6 + 1e6 / 1e10));
  CHECK(ExchangeSeconds("slice", 0, Along(RoundNumbers(), "data=8", {"data"})) == 0);
}

}  // namespace
}  // namespace oneflow
