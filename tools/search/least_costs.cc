#include "tools/search/least_costs.h"

#include <algorithm>

#include "oneflow_core/model/sharding.h"

namespace oneflow {
namespace {

// A kernel that runs beside fewer exchanges, or a layout that suits fewer devices better, may be a
// little dearer in the short plan: tools/search/bounds_test draws how far that goes.
constexpr double kSpare = 0.98;

// Of the bytes of a device's variables, gradients and casts, what it has at least where they are
// split over `parts`: of 16 to 18 bytes a parameter 12 are states, and 4 a gradient.
double LeastShare(const Sharding& shard, double parts) {
  const double whole = shard.states.empty()      ? 1
                       : shard.gradients.empty() ? 0.3
                       : shard.weights.empty()   ? 0.1
                                                 : 0;
  return std::max(whole, 1 / parts);
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

LeastCosts FindLeastCosts(const CompileOptions& given, const PlanFamily& family,
                          const ShortCosts& costs, int blocks) {
  const StageCosts& stage = costs.last;
  const double block = stage.forward.block + stage.backward.block + stage.weights.block;
  const double fixed = stage.forward.fixed + stage.backward.fixed + stage.weights.fixed;
  const double all = blocks * block + std::max(0.0, fixed);
  const double p = family.mesh.stages();
  const auto m = static_cast<double>(family.micro_batches);
  const double most_blocks =
      (blocks + p - 1) / p -
      ((blocks + static_cast<int>(p) - 1) % static_cast<int>(p)) / p;  // rounded up
  LeastCosts least;
  const bool splits = family.schedule == "zero_bubble";
  const double fill = splits ? 0 : (p - 1) * all / (2 * family.chunks * p);
  least.seconds = kSpare * std::max(m * all / p + fill, m * most_blocks * block);
  if (family.offload.empty() && given.offload.empty()) {
    const double parts = static_cast<double>(FindDegree(family.mesh, "data")) *
                         FindDegree(family.mesh, "context") * FindDegree(family.mesh, "expert");
    least.bytes = kSpare * most_blocks * stage.resident.block * LeastShare(family.shard, parts);
  }
  return least;
}

}  // namespace oneflow
