#include "oneflow_core/cost/host_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "oneflow_core/plan/arenas.h"

namespace oneflow {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t Product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

int64_t Sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}

// Stages by rank: `run` devices of each, one stage after the other, then again.
struct Ranks {
  int64_t devices = 1, run = 1;
  int stages = 1;

  explicit Ranks(const proto::Mesh& mesh, int stage_axis) {
    for (int axis = 0; axis < mesh.axis_size(); ++axis) {
      devices = Product(devices, mesh.axis(axis).size());
      if (axis == stage_axis) stages = static_cast<int>(mesh.axis(axis).size());
      if (axis > stage_axis) run = Product(run, mesh.axis(axis).size());
    }
    if (stage_axis < 0) run = devices;
  }

  // Devices of the stage among the first `ranks`.
  int64_t Count(int stage, int64_t ranks) const {
    const int64_t period = run * stages;
    const int64_t rest = ranks % period - stage * run;
    return ranks / period * run + std::clamp<int64_t>(rest, 0, run);
  }
};

// The number of devices of a node; 0: all are in one.
int64_t SizeOfNode(const proto::Cluster& cluster) {
  int64_t size = 1;
  for (const proto::Level& level : cluster.level()) {
    size = Product(size, level.size());
    if (level.name() == "node") return size;
  }
  return 0;
}

NodeMemory CountNode(const proto::Plan& plan, const Ranks& ranks, int64_t node, int64_t size) {
  const int64_t begin = node * size, end = std::min(ranks.devices, begin + size);
  NodeMemory memory{.node = node, .devices = end - begin, .first_stage = -1};
  for (int stage = 0; stage < ranks.stages; ++stage) {
    const int64_t devices = ranks.Count(stage, end) - ranks.Count(stage, begin);
    if (devices == 0) continue;
    if (memory.first_stage < 0) memory.first_stage = stage;
    memory.last_stage = stage;
    memory.bytes = Sum(memory.bytes, Product(devices, HostArenaBytes(plan, stage)));
  }
  return memory;
}

}  // namespace

bool KnowsNodes(const proto::Cluster& cluster) { return SizeOfNode(cluster) > 0; }

NodeMemory FindNodeMemory(const proto::Plan& plan, const proto::Cluster& cluster) {
  const Ranks ranks(plan.mesh(), plan.stage_axis());
  const bool good = ranks.devices > 0 && ranks.devices <= std::numeric_limits<int32_t>::max() &&
                    ranks.run > 0 && ranks.stages > 0 && ranks.stages == StageCount(plan);
  if (!good) return {};
  const int64_t given = SizeOfNode(cluster);
  const int64_t size = given > 0 ? std::min(given, ranks.devices) : ranks.devices;
  // Nodes after these are alike, each to one before it.
  const int64_t period = std::lcm(ranks.run * ranks.stages, size);
  const int64_t nodes = (std::min(period, ranks.devices) + size - 1) / size;
  NodeMemory most = CountNode(plan, ranks, 0, size);
  for (int64_t node = 0; node < nodes;) {
    const NodeMemory memory = CountNode(plan, ranks, node, size);
    if (memory.bytes > most.bytes) most = memory;
    // Those that end before the present stage does hold as much.
    const int64_t end_of_run = (node * size / ranks.run + 1) * ranks.run;
    node = std::max(node + 1, end_of_run / size);
  }
  return most;
}

}  // namespace oneflow
