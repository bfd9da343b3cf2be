#include "tools/foreign/emit/nearest_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/block_classes.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/recipe/make_plan.h"
#include "planning/simulate/simulate_on.h"
#include "training/hugging_face/model_graph.h"

namespace oneflow::foreign {
namespace {

constexpr int64_t kMostFiringsOfStep = int64_t{1} << 24;
constexpr int kUsualNode = 8;

// Of the largest block.
int64_t CountBlockParameters(const proto::Graph& graph) {
  std::map<int, int64_t> counts;
  int64_t most = 0;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable" || !op.has_block()) continue;
    int64_t elements = 1;
    for (const auto& dim : op.shape().dim()) elements *= dim.size();
    most = std::max(most, counts[op.block()] += elements);
  }
  return most;
}

// Seconds of a step; 0 where there are too many firings to play.
absl::StatusOr<double> FindStepSeconds(const proto::Plan& plan, const proto::Cluster& cluster) {
  const absl::StatusOr<SimulatedRun> run =
      SimulateProved(cluster, plan, "train", /*steps=*/2, kSkipAfter, kMostFiringsOfStep);
  if (absl::IsResourceExhausted(run.status())) return 0.0;
  RETURN_IF_ERROR(run.status());
  return run->StepSeconds();
}

std::string RoundingsText(const Rounded& rounded) {
  std::string text;
  for (const Rounding& r : rounded.roundings) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "--", r.row, "=",
                    r.to.empty() ? "auto" : r.to);
  }
  return text;
}

}  // namespace

std::vector<int> FindSliceLayers(const proto::Plan& plan, int layers) {
  const int stages = StageCount(plan);
  if (stages <= 1) return {};
  std::map<int, int> stage_of_block;
  for (const proto::Op& op : plan.graph().op()) {
    if (op.kind() != "variable" || !op.has_block()) continue;
    const auto variable =
        std::find_if(plan.variable().begin(), plan.variable().end(),
                     [&](const proto::Variable& v) { return v.name() == op.name(); });
    if (variable == plan.variable().end() || variable->register_().empty()) continue;
    stage_of_block.emplace(op.block(), plan.persistent(variable->register_(0)).stage());
  }
  // Slices are on the stages in turn, and a slice of no block is the first or the last one.
  const int chunks = std::max(plan.recipe().chunks(), 1);
  std::vector<int> slices(static_cast<size_t>(stages) * chunks);
  size_t slice = 0;
  for (int block = 0; block < layers; ++block) {
    const auto found = stage_of_block.find(block);
    if (found == stage_of_block.end()) return {};
    while (slice + 1 < slices.size() && static_cast<int>(slice) % stages != found->second) ++slice;
    ++slices[slice];
  }
  return slices;
}

absl::StatusOr<Job> JobFromPlan(const proto::Plan& plan, const proto::Run& run,
                                const proto::Cluster& cluster) {
  Job job{.name = plan.model()};
  ASSIGN_OR_RETURN(job.model, DescribeModel(plan.graph()));
  job.recipe = plan.recipe();
  job.optimizer = plan.optimizer();
  CopyFields(OptimizerRows(), run.optimizer(), &job.optimizer);
  SetDefaults(OptimizerRows(), &job.optimizer);
  job.run = run;
  SetDefaults(RunRows(), &job.run);
  job.parameters = ParameterCount(plan);
  job.block_parameters = CountBlockParameters(plan.graph());
  job.block_classes = FindBlockClasses(plan.graph()).class_of;
  const int node = cluster.level_size() > 0 ? cluster.level(0).size() : 0;
  job.devices_a_node = node > 0 ? node : kUsualNode;
  if (job.recipe.stage_layers().layers().empty()) {
    for (const int layers : FindSliceLayers(plan, static_cast<int>(job.model.layers()))) {
      job.recipe.mutable_stage_layers()->add_layers(layers);
    }
  }
  return job;
}

absl::StatusOr<NearestPlan> FindNearestPlan(System system, const Job& job, const PlanToRound& on) {
  ASSIGN_OR_RETURN(std::vector<Rounded> candidates, RoundFor(system, job));
  ASSIGN_OR_RETURN(const double seconds_before, FindStepSeconds(on.plan, on.cluster));
  const int64_t bytes_before = MostDeviceBytes(on.plan);
  NearestPlan best;
  absl::Status refused;
  bool found = false;
  for (Rounded& candidate : candidates) {
    NearestPlan nearest{.seconds_before = seconds_before, .bytes_before = bytes_before};
    if (candidate.roundings.empty()) {
      nearest.seconds = seconds_before;
      nearest.bytes = bytes_before;
    } else {
      PlanRequest request{.recipe = candidate.job.recipe,
                          .cluster = on.plan.cluster(),
                          .optimizer = candidate.job.optimizer,
                          .imbalance = on.imbalance};
      request.recipe.set_keep_axis_order(true);
      const absl::StatusOr<Planned> planned = MakePlan({on.plan.graph(), job.name, {}}, request);
      if (absl::IsResourceExhausted(planned.status())) {
        if (refused.ok()) {
          refused = Annotate(planned.status(),
                             absl::StrCat("--emit=", ToAbsl(SystemWord(system)),
                                          ": the nearest that ", ToAbsl(SystemName(system)),
                                          " can does not fit (", RoundingsText(candidate), ")"));
        }
        continue;
      }
      RETURN_IF_ERROR(
          Annotate(planned.status(), absl::StrCat("--emit=", ToAbsl(SystemWord(system)),
                                                  ": rounded to ", RoundingsText(candidate))));
      ASSIGN_OR_RETURN(nearest.seconds, FindStepSeconds(planned->plan, on.cluster));
      nearest.bytes = MostDeviceBytes(planned->plan);
    }
    nearest.rounded = std::move(candidate);
    if (!found || nearest.seconds < best.seconds) best = std::move(nearest);
    found = true;
  }
  if (!found) return refused;
  return best;
}

}  // namespace oneflow::foreign
