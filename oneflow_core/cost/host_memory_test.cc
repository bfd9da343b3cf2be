#include "oneflow_core/cost/host_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace oneflow {
namespace {

// A plan with host arenas of so many bytes, by stage.
proto::Plan MakePlan(const std::vector<std::pair<std::string, int>>& axes, int stage_axis,
                     const std::vector<int64_t>& bytes) {
  proto::Plan plan;
  for (const auto& [name, size] : axes) {
    auto* axis = plan.mutable_mesh()->add_axis();
    axis->set_name(name);
    axis->set_size(size);
  }
  plan.set_stage_axis(stage_axis);
  for (const auto kind : {proto::DEVICE, proto::HOST}) {
    for (size_t stage = 0; stage < bytes.size(); ++stage) {
      proto::StageMemory* memory = plan.add_memory();
      memory->set_stage(static_cast<int>(stage));
      memory->set_kind(kind);
      memory->set_arena_bytes(kind == proto::HOST ? bytes[stage] : 1 << 20);
    }
  }
  return plan;
}

proto::Cluster MakeNodes(int devices) {
  proto::Cluster cluster;
  cluster.add_level()->set_name("node");
  cluster.mutable_level(0)->set_size(devices);
  cluster.add_level()->set_name("cluster");
  return cluster;
}

// One rank after the other.
int64_t MostByRank(const std::vector<std::pair<std::string, int>>& axes, int stage_axis,
                   const std::vector<int64_t>& bytes, int size) {
  int devices = 1, run = 1;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    devices *= axes[axis].second;
    if (static_cast<int>(axis) > stage_axis) run *= axes[axis].second;
  }
  std::vector<int64_t> nodes((devices + size - 1) / size, 0);
  for (int rank = 0; rank < devices; ++rank) {
    nodes[rank / size] += bytes[rank / run % bytes.size()];
  }
  return *std::max_element(nodes.begin(), nodes.end());
}

}  // namespace

TEST_CASE("without a level \"node\" all devices are in one") {
  const proto::Plan plan = MakePlan({{"pipe", 2}, {"data", 3}}, 0, {10, 1});
  const NodeMemory most = FindNodeMemory(plan, {});
  CHECK(most.devices == 6);
  CHECK(most.bytes == 33);
  CHECK(std::pair(most.first_stage, most.last_stage) == std::pair(0, 1));
  CHECK(!KnowsNodes({}));
  CHECK(FindNodeMemory(MakePlan({}, -1, {7}), {}).bytes == 7);
}

TEST_CASE("the node that takes most is found, wherever the stages stand") {
  const std::vector<std::pair<std::string, int>> meshes[] = {
      {{"pipe", 3}, {"data", 8}}, {{"data", 8}, {"pipe", 3}}, {{"data", 5}, {"pipe", 3}, {"t", 2}}};
  const std::vector<int64_t> bytes = {3, 1, 5};
  for (const auto& axes : meshes) {
    const int stage_axis = axes[0].first == "pipe" ? 0 : 1;
    const proto::Plan plan = MakePlan(axes, stage_axis, bytes);
    for (int size = 1; size < 30; ++size) {
      const int64_t most = MostByRank(axes, stage_axis, bytes, size);
      CHECK(FindNodeMemory(plan, MakeNodes(size)).bytes == most);
    }
  }
  const NodeMemory last = FindNodeMemory(MakePlan(meshes[0], 0, bytes), MakeNodes(4));
  CHECK(last.node == 4);
  CHECK(last.devices == 4);
  CHECK(std::pair(last.first_stage, last.last_stage) == std::pair(2, 2));
}

TEST_CASE("levels inside a node multiply") {
  proto::Cluster cluster = MakeNodes(4);
  cluster.mutable_level(0)->set_name("process");
  cluster.mutable_level(1)->set_name("node");
  cluster.mutable_level(1)->set_size(2);
  CHECK(FindNodeMemory(MakePlan({{"data", 16}}, -1, {3}), cluster).bytes == 24);
}

TEST_CASE("a plan that was edited is counted as far as it can be") {
  const int64_t many = int64_t{1} << 62;
  CHECK(FindNodeMemory(MakePlan({{"data", 4}}, -1, {many}), {}).bytes ==
        std::numeric_limits<int64_t>::max());
  CHECK(FindNodeMemory(MakePlan({{"data", 0}}, -1, {3}), {}).devices == 0);
  CHECK(FindNodeMemory(MakePlan({{"pipe", 3}}, 0, {3}), {}).devices == 0);
}

}  // namespace oneflow
