#include "planning/search/least_costs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/search/list_meshes.h"

namespace oneflow {
namespace {

// A kernel that runs beside fewer exchanges, or a layout that suits fewer devices better, may be a
// little dearer in the short plan.
constexpr double kSpare = 0.98, kSpareOfOne = 0.95, kSpareOther = 0.8;
// A CPU's kernel that is measured with a part of the work may take less than that part.
constexpr double kSpareOfCpu = 0.75;

// The part of the exchanges of gradients and weights that makes a step longer, as a rule. Within
// nodes they are short, and wait in turn with those of activations.
constexpr double kShown = 0.3, kShownInNodes = 1;

// `split`: devices that one takes the place of.
double SpareOfOne(const PlanRequest& given, double split) {
  const bool cpu = given.cluster.device().kind() == proto::Device::CPU;
  return cpu && split > 1 ? kSpareOfCpu : kSpareOfOne;
}

// Some stage has as many.
int MostBlocks(int blocks, int stages) { return (blocks + stages - 1) / stages; }

// The part of the bytes of a device's variables and casts that it has at least where they are split
// over `parts`. A parameter has 12 bytes of states, and 2 of a cast in bf16.
double LeastShare(const PlanRequest& given, const proto::Shard& shard, double parts) {
  const double cast = given.recipe.precision() == proto::BF16 ? 2 : 0;
  const double states = 12 / (shard.states().empty() ? 1 : parts);
  return (states + cast / (shard.weights().empty() ? 1 : parts)) / (12 + cast);
}

// The seconds of a step, where a device takes `part` of what `costs` say.
double StepSeconds(const proto::Recipe& group, const ShortCosts& costs, int blocks, double part) {
  const StageCosts& stage = costs.last;
  const LinearTasks& tasks = stage.spans;
  const double block = tasks.forward.block + tasks.backward.block + tasks.weights.block;
  const double fixed = tasks.forward.fixed + tasks.backward.fixed + tasks.weights.fixed;
  const double all = part * (blocks * block + std::max(0.0, fixed));
  const int stages = FindMesh(group).stages();
  const auto m = static_cast<double>(group.micro_batches()), p = static_cast<double>(stages);
  const double chunks = group.chunks();
  const double together = group.schedule() == "zero_bubble"
                              ? m * all / p
                              : all / (chunks * (1 - std::pow(1 - 1 / (chunks * m), p)));
  return std::max(together, m * MostBlocks(blocks, stages) * block * part);
}

}  // namespace

ShortPlanSpec LeastSpec(const PlanRequest& given, const proto::Recipe& group) {
  ShortPlanSpec spec = FindShortSpec(given, group);
  Mesh mesh = FindMesh(group);
  spec.sequences = FindMostSequences(spec.sequences, 1, FindDegree(mesh, "data"));
  // Without stages a backward is not split from the gradients of weights.
  const bool splits = group.schedule() == "zero_bubble";
  std::erase_if(mesh.axes, [&](const Mesh::Axis& axis) {
    return axis.name.starts_with("data") || (axis.name == "pipe" && !splits);
  });
  for (Mesh::Axis& axis : mesh.axes) {
    if (axis.name == "pipe") axis.size = 2;
  }
  proto::Recipe& alone = spec.group;
  *alone.mutable_mesh() = ToProto(mesh);
  if (!splits) alone.set_schedule("1f1b");
  alone.set_chunks(1);
  alone.set_extra_in_flight(0);
  alone.mutable_shard()->Clear();
  alone.mutable_offload()->Clear();
  alone.set_micro_batches(group.micro_batches() > 1 ? 8 : 1);
  return spec;
}

ShortPlanSpec LeastSpecOfOne(const PlanRequest& given, const proto::Recipe& group) {
  ShortPlanSpec spec = LeastSpec(given, group);
  Mesh mesh = FindMesh(spec.group);
  spec.sequences = FindMostSequences(spec.sequences, 1, FindDegree(mesh, "expert"));
  std::erase_if(mesh.axes, [](const Mesh::Axis& axis) { return axis.name != "pipe"; });
  *spec.group.mutable_mesh() = ToProto(mesh);
  spec.group.set_sequence_parallel(false);
  return spec;
}

ShortCosts LeastOfGroup(const PlanRequest& given, const proto::Recipe& group,
                        const ShortCosts& costs, bool of_one) {
  const Mesh mesh = FindMesh(group);
  const double tensor = FindDegree(mesh, "tensor");
  const double context = FindDegree(mesh, "context");
  const double expert = FindDegree(mesh, "expert");
  const double spare = of_one ? SpareOfOne(given, tensor * context) / (tensor * context) : kSpare;
  const double spare_variables = of_one ? kSpareOfOne / (tensor * expert) : kSpare;
  const bool one = mesh.stages() == 1;
  const StageCosts& alone = one ? costs.last : costs.first;
  StageCosts least;
  for (const auto& [to, from] :
       {std::pair(&least.spans, &alone.spans), std::pair(&least.kernels, &alone.kernels)}) {
    to->forward.block = spare * from->forward.block;
    to->backward.block = spare * from->backward.block;
    to->weights.block = spare * from->weights.block;
  }
  const bool rests = group.offload().states() || group.offload().weights() ||
                     given.recipe.update_on() == proto::UPDATE_ON_HOST;
  const double parts = FindDegree(mesh, "data") * context * expert;
  const bool shards_sums = !group.shard().gradients().empty();
  const double share = rests ? 0 : spare_variables * LeastShare(given, group.shard(), parts);
  least.resident.block = share * alone.resident.block;
  least.sums.block = rests ? 0 : spare_variables * alone.sums.block / (shards_sums ? parts : 1);
  const bool known = !group.offload().has_activations();
  least.saved.block = known ? spare * alone.saved.block : 0;
  least.kept.block = known ? spare * alone.kept.block : 0;
  ShortCosts result{least, least, least};
  // The first and the last stage have a table each, which may be the same.
  const double tables = share * std::max(0.0, costs.last.resident.fixed);
  if (!one) result.first.resident.fixed = tables / 2;
  result.last.resident.fixed = one ? tables : tables / 2;
  if (known) {
    result.last.saved.fixed = spare * std::max(0.0, costs.last.saved.fixed);
    Transients& transients = result.last.transients;
    const double part = kSpareOther * spare / kSpare;
    transients.head = part * std::max(0.0, costs.last.transients.head);
    transients.last = part * std::max(0.0, costs.last.transients.last);
  }
  return result;
}

ShortCosts WithPartsKept(ShortCosts least, const ShortCosts& of_one) {
  for (StageCosts ShortCosts::*slice :
       {&ShortCosts::first, &ShortCosts::middle, &ShortCosts::last}) {
    StageCosts& to = least.*slice;
    const StageCosts& from = of_one.*slice;
    for (Linear StageCosts::*part : {&StageCosts::saved, &StageCosts::kept}) {
      (to.*part).fixed = std::min((to.*part).fixed, (from.*part).fixed);
      (to.*part).block = std::min((to.*part).block, (from.*part).block);
    }
    to.transients.head = std::min(to.transients.head, from.transients.head);
    to.transients.last = std::min(to.transients.last, from.transients.last);
  }
  return least;
}

double FindShownExchanges(const PlanRequest& given, const proto::Recipe& group,
                          const ShortCosts& costs) {
  const auto splits = [](const auto& axes, const std::string& axis) {
    return std::any_of(axes.begin(), axes.end(), [&](const std::string& name) {
      return name == axis || (name == "data" && SplitsTokens(axis));
    });
  };
  const Mesh mesh = FindMesh(group);
  const StageCosts& alone = mesh.stages() == 1 ? costs.last : costs.first;
  const std::vector<Mesh::Axis>& axes = mesh.axes;
  // Inner axes sum first, so that outer ones have less to sum.
  double seconds = 0, bytes = alone.sums.block;
  for (size_t a = axes.size(); a-- > 0;) {
    const Mesh::Axis& axis = axes[a];
    if (axis.size == 1 || !SplitsTokens(axis.name)) continue;
    const double shown =
        LevelOfAxis(given.cluster, mesh, static_cast<int>(a)) == 0 ? kShownInNodes : kShown;
    const double once =
        shown * ExchangeSeconds("reduce_scatter", ReceivedBytes("reduce_scatter", bytes, axis.size),
                                LinksOfGroup(given.cluster, mesh, {static_cast<int>(a)}));
    if (splits(group.shard().gradients(), axis.name)) seconds += once;
    // Twice, in half as many bytes with bf16.
    const double gathers = given.recipe.precision() == proto::BF16 ? 1 : 2;
    if (splits(group.shard().weights(), axis.name)) seconds += gathers * once;
    bytes /= axis.size;
  }
  return group.micro_batches() > 1 ? seconds : 0;
}

double FindLeastSeconds(const PlanRequest& given, const proto::Recipe& group,
                        const ShortCosts& costs, int blocks, bool of_one) {
  const Mesh mesh = FindMesh(group);
  const int split = FindDegree(mesh, "tensor") * FindDegree(mesh, "context");
  const double spare = of_one ? SpareOfOne(given, split) : kSpare;
  return spare * StepSeconds(group, costs, blocks, of_one ? 1.0 / split : 1);
}

}  // namespace oneflow
