#include "planning/search/short_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/actor_cost.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/recipe/make_plan.h"
#include "planning/recipe/shorten_model.h"
#include "planning/search/played_step.h"
#include "planning/search/stage_runs.h"
#include "planning/simulate/simulate_on.h"

namespace oneflow {
namespace {

// One in the middle shows what all of them do.
constexpr int kMostStages = 3;
// Some of these are in the steady part of a step.
constexpr int64_t kMicroBatches = 8;

struct ShortRun {
  std::vector<StageRun> stages;
  std::vector<std::vector<Held>> held;  // by stage
  double link = 0;
  double each_micro_batch = 0, each_step = 0;
};

// The cluster on which a short plan's kernels take as long as those of all `devices`.
proto::Cluster ShortCluster(const proto::Cluster& cluster, int64_t devices, int64_t short_devices) {
  proto::Cluster result = cluster;
  // More devices would have less of the cores each.
  if (short_devices > devices) {
    result.set_cores(static_cast<int32_t>(cluster.cores() * short_devices / devices));
  }
  result.mutable_spread()->set_slower(FindSlowdown(cluster, devices) - 1);
  result.mutable_spread()->set_slow_share(1);
  if (cluster.device().kind() != proto::Device::CPU) {
    // A short pipe may be longer than that of the group.
    if (result.level_size() > 0) result.mutable_level(result.level_size() - 1)->clear_size();
    result.mutable_device()->set_firing_seconds(0);  // added later: it is a bound, not a sum
  }
  return result;
}

// A stage of several chunks has slices of all kinds. CPUs share cores and links, so that all stages
// count.
int ShortStages(const PlanRequest& given, const proto::Recipe& group) {
  const int stages = FindMesh(group).stages(), few = std::min(stages * group.chunks(), kMostStages);
  const bool cpu = given.cluster.device().kind() == proto::Device::CPU;
  return cpu ? std::max(stages, few) : few;
}

// The terms of a class are those of a model that has no others. Of numbers by slice each slice of a
// short plan has the largest.
void KeepTerms(int block_class, proto::Recompute* recompute) {
  if (recompute->term().empty()) return;
  proto::Recompute kept = *recompute;
  kept.clear_term();
  for (const proto::Recompute::Term& term : recompute->term()) {
    if (!term.blocks().empty() && term.blocks() != BlockClassName(block_class)) continue;
    proto::Recompute::Term& copy = *kept.add_term();
    copy = term;
    copy.clear_blocks();
    if (copy.counts_size() < 2) continue;
    *copy.mutable_counts()->begin() = *std::ranges::max_element(copy.counts());
    copy.mutable_counts()->Truncate(1);
  }
  *recompute = std::move(kept);
}

// The short plan's candidate, but for the blocks of its stages.
proto::Recipe ShortRecipe(const PlanRequest& given, const ShortPlanSpec& spec) {
  proto::Recipe recipe = spec.group;
  for (proto::Mesh::Axis& axis : *recipe.mutable_mesh()->mutable_axis()) {
    if (axis.name() == "pipe") axis.set_size(ShortStages(given, spec.group));
  }
  recipe.set_keep_axis_order(true);
  recipe.set_micro_batches(std::min(recipe.micro_batches(), kMicroBatches));
  if (recipe.chunks() > 1) recipe.set_schedule("1f1b");
  recipe.set_chunks(1);
  recipe.clear_stage_layers();
  KeepTerms(spec.block_class, recipe.mutable_recompute());
  return recipe;
}

PlanRequest ShortRequest(const PlanRequest& given, const ShortPlanSpec& spec, int blocks) {
  PlanRequest request = CandidateRequest(given, ShortRecipe(given, spec));
  const Mesh mesh = FindMesh(request.recipe);
  request.cluster = ShortCluster(given.cluster, spec.devices, mesh.devices());
  request.cluster.mutable_device()->clear_memory_bytes();
  request.recipe.clear_host_memory();
  request.recipe.set_batch(request.recipe.micro_batches() * spec.sequences);
  request.recipe.mutable_stage_layers()->mutable_layers()->Resize(mesh.stages(), blocks);
  return request;
}

PipeSeconds FindSeconds(const std::vector<StageRun>& stages, double link, bool kernels) {
  PipeSeconds seconds;
  for (const StageRun& stage : stages) {
    seconds.stages.push_back(kernels ? stage.kernels : stage.spans);
  }
  if (!kernels) {
    for (const StageRun& stage : stages) seconds.ahead.push_back(stage.ahead);
  }
  seconds.links.assign(stages.size(), link);
  return seconds;
}

// The most of activations, of what W needs, and of sums at one of the times when a B begins, or is
// over.
double FindMost(const StageRun& stage, const std::vector<Held>& times, bool over) {
  double most = 0;
  for (const Held& held : times) {
    if (held.over != over) continue;
    most = std::max(most, held.activations[0] * stage.saved + held.for_weights[0] * stage.kept +
                              (held.sums[0] ? stage.sums : 0));
  }
  return most;
}

// The bytes that the run of a stage with `blocks` blocks holds beyond what `costs` say of them.
Transients FindTransients(const StageRun& stage, const StageCosts& costs,
                          const std::vector<Held>& times, int64_t micro_batches) {
  const double begin = stage.resident + FindMost(stage, times, /*over=*/false);
  const double over = stage.resident + FindMost(stage, times, /*over=*/true);
  const double after_head = begin - std::max(0.0, costs.saved.fixed);
  Transients found{.head = stage.held.head - begin,
                   .tail = stage.held.tail - over,
                   .any = stage.held.any - std::max(begin, over)};
  const std::vector<double>& blocks = stage.held.blocks;
  found.last = blocks.back() - after_head;
  found.inner = -after_head;
  for (size_t j = 0; j + 1 < blocks.size(); ++j) {
    const auto behind = static_cast<double>(blocks.size() - 1 - j);
    const double freed = behind * FreedByBlock(costs, micro_batches);
    found.inner = std::max(found.inner, blocks[j] - after_head + freed);
  }
  return found;
}

// Gives each expert a queue of its own: so one device has as many slots as all devices that would
// split the experts.
void BoundQueues(double slots, proto::Graph* graph) {
  int64_t experts = 0;
  for (const proto::Op& op : graph->op()) {
    const auto of = op.attr().find("experts");
    if (of != op.attr().end()) experts = std::max(experts, of->second.i());
  }
  for (proto::Op& op : *graph->mutable_op()) {
    if (!op.attr().contains("experts") && !op.attr().contains("choices")) continue;
    (*op.mutable_attr())["groups"].set_i(experts);
    (*op.mutable_attr())["capacity"].set_f(slots);
  }
}

bool HasExperts(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(),
                     [](const proto::Op& op) { return op.attr().contains("experts"); });
}

absl::StatusOr<ShortRun> RunShort(const GraphSource& source, const PlanRequest& given,
                                  const ShortPlanSpec& spec, int blocks) {
  PlanRequest options = ShortRequest(given, spec, blocks);
  const int stages = ShortStages(given, spec.group);
  GraphSource shorter{{}, source.file, {}};
  ASSIGN_OR_RETURN(shorter.graph, WithBlocks(source.graph, stages * blocks, spec.block_class));
  if (HasExperts(source.graph) && !HasExperts(shorter.graph)) {
    options.recipe = WithoutExperts(std::move(options.recipe));
  }
  if (spec.slots > 0) BoundQueues(spec.slots, &shorter.graph);
  ASSIGN_OR_RETURN(const proto::Plan plan, MakeDraft(shorter, options));
  ASSIGN_OR_RETURN(const SimulatedRun run,
                   SimulateProved(options.cluster, plan, "train", /*steps=*/2));
  const int64_t m = options.recipe.micro_batches();
  ShortRun result;
  ASSIGN_OR_RETURN(result.stages, FindStageRuns(plan, run));
  result.link = FindLinkSeconds(plan, run);
  ASSIGN_OR_RETURN(const PlanRequest complete, Completed(options));
  const bool overlap = !complete.recipe.global_norm();
  ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(complete.recipe, stages));
  std::vector<double> kept;
  for (const StageRun& stage : result.stages) kept.push_back(stage.KeptForWeights());
  schedule = FitToStages(schedule, FindSeconds(result.stages, result.link, /*kernels=*/true), kept,
                         m, overlap);
  result.held = CountHeld(schedule, stages, m);
  double longest = 0;
  for (const StageRun& stage : result.stages) {
    longest = std::max(longest, stage.spans.forward + stage.spans.backward + stage.spans.weights);
  }
  ASSIGN_OR_RETURN(
      const double played,
      PlayedSeconds(schedule, FindSeconds(result.stages, result.link, false), m, overlap));
  // The last stage has no warm-up: from one forward to the next it takes a whole period.
  result.each_micro_batch = m < 3 ? 0 : std::max(0.0, result.stages.back().cycle - longest);
  result.each_step = run.StepSeconds() - played - static_cast<double>(m) * result.each_micro_batch;
  return result;
}

// Blocks of a stage of the two plans that are made.
struct Sizes {
  int few = 1, more = 2;
};

// Through the values at both sizes.
Linear Through(const Sizes& sizes, double of_few, double of_more) {
  const double block = (of_more - of_few) / (sizes.more - sizes.few);
  return {of_few - sizes.few * block, block};
}

LinearTasks Through(const Sizes& sizes, const TaskSeconds& one, const TaskSeconds& two) {
  return {Through(sizes, one.forward, two.forward), Through(sizes, one.backward, two.backward),
          Through(sizes, one.weights, two.weights)};
}

StageCosts CostsThrough(const Sizes& sizes, const StageRun& one, const StageRun& two) {
  StageCosts costs;
  costs.spans = Through(sizes, one.spans, two.spans);
  costs.kernels = Through(sizes, one.kernels, two.kernels);
  for (const auto& [name, use] : one.streams) {
    const auto other = two.streams.find(name);
    const StreamUse more = other == two.streams.end() ? use : other->second;
    costs.streams[name] = {Through(sizes, use.each, more.each),
                           Through(sizes, use.once, more.once)};
  }
  const auto through = [&](double StageRun::*part) { return Through(sizes, one.*part, two.*part); };
  costs.ahead = through(&StageRun::ahead);
  costs.firings = through(&StageRun::firings);
  costs.firings_once = through(&StageRun::firings_once);
  costs.resident = through(&StageRun::resident);
  costs.sums = through(&StageRun::sums);
  costs.saved = through(&StageRun::saved);
  costs.kept = through(&StageRun::kept);
  costs.fit_saved = through(&StageRun::fit_saved);
  costs.fit_kept = through(&StageRun::fit_kept);
  return costs;
}

// Bytes of the gradients of a block on a device. `graph`: of one block.
double BlockBytes(const proto::Graph& graph, const PlanRequest& given, const Mesh& mesh) {
  double elements = 0;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable" || !op.has_block()) continue;
    double product = 1;
    for (const auto& dim : op.shape().dim()) product *= static_cast<double>(dim.size());
    elements += product;
  }
  return elements * (given.recipe.precision() == proto::BF16 ? 2 : 4) /
         (FindDegree(mesh, "tensor") * FindDegree(mesh, "expert"));
}

// Small exchanges are joined to some of kBucketBytes, so many blocks of small ones take no whole
// number of times as much as one. Where weights are gathered ahead, as many blocks hold gathered
// weights at once.
Sizes FindSizes(const proto::Graph& graph, const PlanRequest& given, const proto::Recipe& group) {
  constexpr int kManyBuckets = 8;
  const double bytes = BlockBytes(graph, given, FindMesh(group));
  const bool large =
      bytes >= kManyBuckets * static_cast<double>(WithDefaults(given.recipe).bucket_bytes());
  if (group.shard().weights().empty()) return large ? Sizes{1, 2} : Sizes{2, 4};
  return large ? Sizes{3, 4} : Sizes{3, 5};
}

}  // namespace

double FreedByBlock(const StageCosts& slice, int64_t micro_batches) {
  const double grown = micro_batches == 1 ? slice.sums.block : 0;
  return slice.saved.block - slice.kept.block - grown;
}

ShortPlanSpec FindShortSpec(const PlanRequest& given, const proto::Recipe& group, int block_class) {
  return {group, block_class, given.recipe.batch() / group.micro_batches(),
          FindMesh(group).devices()};
}

proto::Recipe WithoutExperts(proto::Recipe recipe) {
  recipe.clear_experts();
  std::vector<std::string*> names;
  bool splits_experts = false;
  for (proto::Mesh::Axis& axis : *recipe.mutable_mesh()->mutable_axis()) {
    const std::string word = axis.name().substr(0, axis.name().find('.'));
    splits_experts = splits_experts || word == "expert";
    if (word == "data" || word == "expert") names.push_back(axis.mutable_name());
  }
  if (!splits_experts) return recipe;
  for (size_t i = 0; i < names.size(); ++i) {
    *names[i] = names.size() == 1 ? "data" : absl::StrCat("data.", i);
  }
  return recipe;
}

std::string ShortPlanKey(const PlanRequest& given, const ShortPlanSpec& spec) {
  return absl::StrCat(ShortRecipe(given, spec).SerializeAsString(), " of ", spec.sequences, " on ",
                      spec.devices, " with ", spec.slots, " of class ", spec.block_class);
}

absl::StatusOr<ShortCosts> MeasureShortPlan(const GraphSource& source, const PlanRequest& given,
                                            const ShortPlanSpec& spec) {
  ASSIGN_OR_RETURN(const proto::Graph block, WithBlocks(source.graph, 1, spec.block_class));
  const Sizes sizes =
      FindSizes(block, given, HasExperts(block) ? spec.group : WithoutExperts(spec.group));
  ASSIGN_OR_RETURN(const ShortRun one, RunShort(source, given, spec, sizes.few));
  ASSIGN_OR_RETURN(const ShortRun two, RunShort(source, given, spec, sizes.more));
  const size_t last = one.stages.size() - 1;
  const auto costs = [&](size_t s) {
    const StageRun &less = one.stages[s], &more = two.stages[s];
    StageCosts result = CostsThrough(sizes, less, more);
    result.transients = FindTransients(more, result, two.held[s], spec.group.micro_batches());
    const auto update = [](const StageRun& run) {
      return run.held.update - run.resident - run.sums;
    };
    result.transients.update = Through(sizes, update(less), update(more));
    return result;
  };
  ShortCosts result{costs(0), costs(std::min<size_t>(1, last)), costs(last)};
  result.link = two.link;
  result.each_micro_batch = Through(sizes, one.each_micro_batch, two.each_micro_batch);
  result.each_step = Through(sizes, one.each_step, two.each_step);
  if (given.cluster.device().kind() != proto::Device::CPU) {
    result.issue_seconds = given.cluster.device().firing_seconds();
  }
  return result;
}

}  // namespace oneflow
