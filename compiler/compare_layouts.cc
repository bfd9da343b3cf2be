#include "compiler/compare_layouts.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/back_end.h"
#include "compiler/lower/groups.h"
#include "compiler/lower/persistent.h"
#include "compiler/schedule/micro_batches.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_text.h"

namespace oneflow {
namespace {

struct Candidate {
  const char* name;
  LayoutSearch search;
};
// The first is what is taken where nothing is compared.
constexpr Candidate kCandidates[] = {
    {"by the cluster's prices", {LayoutSearch::kCluster, true}},
    {"by prices of links that are alike", {LayoutSearch::kAlike, true}},
    {"by the cluster's prices, no positions split", {LayoutSearch::kCluster, false}},
    {"by prices of links that are alike, no positions split", {LayoutSearch::kAlike, false}},
};

// A plan of this program alone, without bytes.
absl::StatusOr<double> StepSeconds(const CompileOptions& options, proto::Plan plan,
                                   ProgramDraft draft) {
  PersistentIds ids;
  RETURN_IF_ERROR(AddPersistent(draft.graph, &plan, &ids));
  draft.lower.groups = FindGroups({&draft.graph});
  for (const proto::Group& group : draft.lower.groups) *plan.add_group() = group;
  ASSIGN_OR_RETURN(const Schedule schedule, FindSchedule("1f1b"));
  const int64_t all = draft.lower.micro_batches;
  BackEndState state{plan,     draft,        ids,
                     schedule, /*stages=*/1, FewMicroBatches(schedule, /*stages=*/1, all)};
  RETURN_IF_ERROR(RunBackEnd(&state));
  if (state.micro_batches < all) SetMicroBatches(all, /*stages=*/1, schedule, &state.lowered);
  *plan.add_program() = std::move(state.lowered.program);
  *plan.mutable_facts()->add_program() = std::move(state.lowered.facts);
  return options.step_seconds(plan, draft.lower.name);
}

std::string Milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g ms", 1e3 * seconds);
  return text;
}

}  // namespace

bool ComparesLayouts(const CompileOptions& options) {
  const auto& axes = options.mesh.axes;
  bool chooses = false;
  for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis) {
    chooses = chooses || (axis != options.mesh.stage_axis() && axes[axis].size > 1);
  }
  return chooses && options.step_seconds != nullptr && options.cluster.level_size() > 0;
}

absl::StatusOr<std::vector<ComparedLayouts>> CompareLayouts(const CompileOptions& one_stage,
                                                            const proto::Plan& header,
                                                            const DraftMaker& make) {
  std::vector<ComparedLayouts> compared;
  std::vector<ProgramDraft> drafts;
  std::set<std::string> seen;
  for (const Candidate& candidate : kCandidates) {
    if (!candidate.search.split_positions && !one_stage.split_positions) continue;
    ASSIGN_OR_RETURN(ProgramDraft draft, make(candidate.search));
    if (!seen.insert(ToText(draft.graph)).second) continue;
    compared.push_back({candidate.search, candidate.name});
    drafts.push_back(std::move(draft));
  }
  for (size_t i = 0; i < drafts.size() && drafts.size() > 1; ++i) {
    ASSIGN_OR_RETURN(compared[i].seconds, StepSeconds(one_stage, header, std::move(drafts[i])));
  }
  std::stable_sort(compared.begin(), compared.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return compared;
}

std::string ComparisonNote(const std::vector<ComparedLayouts>& compared, const std::string& taken) {
  if (compared.size() < 2) return "";
  std::string text = "layouts compared by the simulator, a step as one stage:";
  for (const ComparedLayouts& one : compared) {
    absl::StrAppend(&text, &one == &compared.front() ? " " : ", ", Milliseconds(one.seconds), " ",
                    one.name, one.name == taken ? " (taken)" : "");
  }
  return text;
}

}  // namespace oneflow
