#include "tools/search/least_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oneflow_core/model/sharding.h"

namespace oneflow {
namespace {

// A kernel that runs beside fewer exchanges, or a layout that suits fewer devices better, may be a
// little dearer in the short plan.
constexpr double kSpare = 0.98, kSpareOfOne = 0.95, kSpareOther = 0.8;

// Some stage has as many.
int MostBlocks(int blocks, int stages) { return (blocks + stages - 1) / stages; }

// Of the bytes of a device's variables, gradients and casts, what it has at least where they are
// split over `parts`. A parameter has 12 bytes of states, 4 of a gradient, and 2 of a cast in bf16.
double LeastShare(const CompileOptions& given, const Sharding& shard, double parts) {
  const double cast = given.train.precision() == proto::BF16 ? 2 : 0;
  const double kept = (shard.states.empty() ? 12 : 0) + (shard.gradients.empty() ? 4 : 0) +
                      (shard.weights.empty() ? cast : 0);
  const double all = 16 + cast;
  return (kept + (all - kept) / parts) / all;
}

// Of a step, where a device takes `part` of what `costs` say.
double StepSeconds(const PlanFamily& family, const ShortCosts& costs, int blocks, double part) {
  const StageCosts& stage = costs.last;
  const double block = stage.forward.block + stage.backward.block + stage.weights.block;
  const double fixed = stage.forward.fixed + stage.backward.fixed + stage.weights.fixed;
  const double all = part * (blocks * block + std::max(0.0, fixed));
  const int stages = family.mesh.stages();
  const auto m = static_cast<double>(family.micro_batches), p = static_cast<double>(stages);
  const double chunks = family.chunks;
  const double together = family.schedule == "zero_bubble"
                              ? m * all / p
                              : all / (chunks * (1 - std::pow(1 - 1 / (chunks * m), p)));
  return std::max(together, m * MostBlocks(blocks, stages) * block * part);
}

}  // namespace

ShortPlanSpec LeastSpec(const CompileOptions& given, const PlanFamily& family) {
  ShortPlanSpec spec = FindShortSpec(given, family);
  spec.sequences /= FindDegree(family.mesh, "data");
  PlanFamily& alone = spec.family;
  // Without stages a backward is not split from the gradients of weights.
  const bool splits = alone.schedule == "zero_bubble";
  std::erase_if(alone.mesh.axes, [&](const Mesh::Axis& axis) {
    return axis.name.starts_with("data") || (axis.name == "pipe" && !splits);
  });
  for (Mesh::Axis& axis : alone.mesh.axes) {
    if (axis.name == "pipe") axis.size = 2;
  }
  if (!splits) alone.schedule = "1f1b";
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
  std::erase_if(spec.family.mesh.axes, [](const Mesh::Axis& axis) { return axis.name != "pipe"; });
  spec.family.split_positions = false;
  return spec;
}

ShortCosts LeastOfFamily(const CompileOptions& given, const PlanFamily& family,
                         const ShortCosts& costs, bool of_one) {
  const double tensor = FindDegree(family.mesh, "tensor");
  const double context = FindDegree(family.mesh, "context");
  const double expert = FindDegree(family.mesh, "expert");
  const double spare = of_one ? kSpareOfOne / (tensor * context) : kSpare;
  const double spare_variables = of_one ? kSpareOfOne / (tensor * expert) : kSpare;
  const bool one = family.mesh.stages() == 1;
  const StageCosts& alone = one ? costs.last : costs.first;
  StageCosts least;
  for (const auto& [to, from] :
       {std::pair(&least.forward, &alone.forward), std::pair(&least.backward, &alone.backward),
        std::pair(&least.weights, &alone.weights)}) {
    to->block = spare * from->block;
  }
  const bool rests =
      family.offload.states || family.offload.weights || given.offload.update_on_host;
  const double parts = FindDegree(family.mesh, "data") * context * expert;
  const double share = rests ? 0 : spare_variables * LeastShare(given, family.shard, parts);
  least.resident.block = share * alone.resident.block;
  const bool known = !family.offload.activations;
  least.saved.block = known ? spare * alone.saved.block : 0;
  least.kept.block = known ? spare * alone.kept.block : 0;
  ShortCosts result{least, least, least};
  // The first and the last stage have a table each, which may be the same.
  const double tables = share * std::max(0.0, costs.last.resident.fixed);
  if (!one) result.first.resident.fixed = tables / 2;
  result.last.resident.fixed = one ? tables : tables / 2;
  if (known) {
    result.last.saved.fixed = spare * std::max(0.0, costs.last.saved.fixed);
    result.last.other_bytes = kSpareOther * spare / kSpare * std::max(0.0, costs.last.other_bytes);
  }
  return result;
}

double FindLeastSeconds(const PlanFamily& family, const ShortCosts& costs, int blocks,
                        bool of_one) {
  const int split = FindDegree(family.mesh, "tensor") * FindDegree(family.mesh, "context");
  return of_one ? kSpareOfOne * StepSeconds(family, costs, blocks, 1.0 / split)
                : kSpare * StepSeconds(family, costs, blocks, 1);
}

}  // namespace oneflow
