#include "tools/search/least_costs.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/model/sharding.h"

namespace oneflow {
namespace {

// A kernel that runs beside fewer exchanges, or a layout that suits fewer devices better, may be a
// little dearer in the short plan: tools/search/bounds_test draws how far that goes.
constexpr double kSpare = 0.98, kSpareOfOne = 0.95;

// Some stage has as many.
int MostBlocks(int blocks, int stages) { return (blocks + stages - 1) / stages; }

// Of the bytes of a device's variables, gradients and casts, what it has at least where they are
// split over `parts`: of 16 to 18 bytes a parameter 12 are states, and 4 a gradient.
double LeastShare(const Sharding& shard, double parts) {
  const double whole = shard.states.empty()      ? 1
                       : shard.gradients.empty() ? 0.3
                       : shard.weights.empty()   ? 0.1
                                                 : 0;
  return std::max(whole, 1 / parts);
}

// Of a step, where a device takes `part` of what `costs` say.
double StepSeconds(const PlanFamily& family, const ShortCosts& costs, int blocks, double part) {
  const StageCosts& stage = costs.last;
  const double block = stage.forward.block + stage.backward.block + stage.weights.block;
  const double fixed = stage.forward.fixed + stage.backward.fixed + stage.weights.fixed;
  const double all = part * (blocks * block + std::max(0.0, fixed));
  const int stages = family.mesh.stages();
  const auto m = static_cast<double>(family.micro_batches), p = static_cast<double>(stages);
  const double fill =
      family.schedule == "zero_bubble" ? 0 : (p - 1) * all / (2 * family.chunks * p);
  return std::max(m * all / p + fill, m * MostBlocks(blocks, stages) * block * part);
}

}  // namespace

ShortPlanSpec LeastSpec(const CompileOptions& given, const PlanFamily& family) {
  ShortPlanSpec spec = SpecOf(given, family);
  spec.sequences /= FindDegree(family.mesh, "data");
  PlanFamily& alone = spec.family;
  std::erase_if(alone.mesh.axes, [](const Mesh::Axis& axis) {
    return axis.name == "pipe" || axis.name.starts_with("data");
  });
  alone.schedule = "1f1b";
  alone.chunks = 1;
  alone.extra_in_flight = 0;
  alone.shard = {};
  alone.offload = {};
  alone.micro_batches = 8;
  return spec;
}

ShortPlanSpec LeastSpecOfOne(const CompileOptions& given, const PlanFamily& family) {
  ShortPlanSpec spec = LeastSpec(given, family);
  spec.sequences /= FindDegree(family.mesh, "expert");
  spec.family.mesh.axes.clear();
  spec.family.split_positions = false;
  return spec;
}

ShortCosts LeastOfFamily(const PlanFamily& family, const ShortCosts& costs) {
  const double parts = static_cast<double>(FindDegree(family.mesh, "data")) *
                       FindDegree(family.mesh, "context") * FindDegree(family.mesh, "expert");
  StageCosts least;
  for (const auto& [to, from] : {std::pair(&least.forward, &costs.last.forward),
                                 std::pair(&least.backward, &costs.last.backward),
                                 std::pair(&least.weights, &costs.last.weights)}) {
    to->block = kSpare * from->block;
  }
  const bool split = family.schedule == "zero_bubble";
  least.resident.block = family.offload.empty()
                             ? kSpare * costs.last.resident.block * LeastShare(family.shard, parts)
                             : 0;
  // What waits for W is not in the short plan, which does not split the backward.
  least.saved.block = split || family.offload.activations ? 0 : kSpare * costs.last.saved.block;
  return {least, least, least};
}

double FindLeastSeconds(const PlanFamily& family, const ShortCosts& costs, int blocks) {
  return kSpare * StepSeconds(family, costs, blocks, 1);
}

double FindLeastSecondsOfOne(const PlanFamily& family, const ShortCosts& costs, int blocks) {
  const int split = FindDegree(family.mesh, "tensor") * FindDegree(family.mesh, "context");
  return kSpareOfOne * StepSeconds(family, costs, blocks, 1.0 / split);
}

}  // namespace oneflow
