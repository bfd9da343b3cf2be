#include "planning/fit/lean.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/block_classes.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/blocks_by_slice.h"
#include "planning/search/evaluate.h"
#include "planning/search/ladder.h"
#include "planning/search/short_plan.h"
#include "planning/search/stage_costs.h"

namespace oneflow {
namespace {

constexpr const char* kFlag = "--fix=";

bool IsFixed(const Fixes& fixes, const std::string& name) {
  return std::ranges::any_of(ListFixes(fixes),
                             [&](const std::string& fix) { return fix.starts_with(name + "="); });
}

absl::Status AddUnlessFixed(const std::string& choice, Fixes* fixes) {
  if (IsFixed(*fixes, choice.substr(0, choice.find('=')))) return absl::OkStatus();
  return AddFixes(kFlag, choice, fixes);
}

// The lower bound of the bytes of a candidate, by its short plan.
absl::StatusOr<double> EstimateBytes(const SearchSpec& spec, const proto::Recipe& candidate) {
  ASSIGN_OR_RETURN(const std::vector<int> blocks,
                   BlocksBySlice(spec.source, CandidateRequest(spec.given, candidate)));
  const BlockClasses classes = FindBlockClasses(spec.source.graph);
  std::vector<ShortCosts> costs;  // of each class
  for (int c = 0; c < classes.size(); ++c) {
    ASSIGN_OR_RETURN(
        costs.emplace_back(),
        MeasureShortPlan(spec.source, spec.given, FindShortSpec(spec.given, candidate, c)));
  }
  ASSIGN_OR_RETURN(const GroupCosts all, GroupCosts::Make(spec.given, candidate, std::move(costs),
                                                          CountClasses(classes.class_of, blocks)));
  double most = 0;
  for (int stage = 0; stage < all.stages(); ++stage) {
    most = std::max(most, all.Bytes(stage, all.BlocksOfStage(stage)));
  }
  return most;
}

}  // namespace

absl::StatusOr<LeanPlan> FindLean(SearchSpec spec, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    RETURN_IF_ERROR(AddUnlessFixed(choice, &spec.fixed));
  }
  for (const char* choice : {"pipe=1", "schedule=1f1b", "recompute=full"}) {
    RETURN_IF_ERROR(AddUnlessFixed(choice, &spec.fixed));
  }
  SearchSpec split = spec;
  RETURN_IF_ERROR(AddUnlessFixed("shard=weights", &split.fixed));
  absl::StatusOr<std::vector<proto::Recipe>> groups = ListGroups(split);
  if (groups.ok()) {
    spec.fixed = split.fixed;
  } else {  // no two devices have the same weights
    ASSIGN_OR_RETURN(groups, ListGroups(spec));
  }
  LeanPlan lean{.candidate = (*groups)[0]};  // several differ by an offload alone
  ASSIGN_OR_RETURN(lean.bytes, EstimateBytes(spec, lean.candidate));
  lean.spec = std::move(spec);
  return lean;
}

absl::StatusOr<CompiledPlan> CompileRequest(const GraphSource& source, const PlanRequest& request,
                                            const proto::Recipe& candidate) {
  ASSIGN_OR_RETURN(Planned planned, MakePlan(source, request));
  ASSIGN_OR_RETURN(FoundPlan found, EvaluatePlan(planned.plan, candidate, request.cluster));
  return CompiledPlan{std::move(found), std::move(planned.plan)};
}

absl::StatusOr<CompiledPlan> CompileFitting(const SearchSpec& spec,
                                            const proto::Recipe& candidate) {
  return CompileRequest(spec.source, CandidateRequest(spec.given, candidate), candidate);
}

absl::StatusOr<CompiledPlan> CompileAnyway(const SearchSpec& spec, const proto::Recipe& candidate) {
  return CompileRequest(spec.source, WithAnyMemory(CandidateRequest(spec.given, candidate)),
                        candidate);
}

}  // namespace oneflow
