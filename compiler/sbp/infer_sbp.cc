#include "compiler/sbp/infer_sbp.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/boxing/stand_in.h"
#include "compiler/sbp/choice_descent.h"
#include "compiler/sbp/choice_network.h"
#include "compiler/sbp/sbp_choice.h"
#include "compiler/sbp/sbp_constraint.h"
#include "compiler/sbp/sbp_network.h"
#include "compiler/sbp/sbp_tables.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// What is chosen at once is solved with tables of so many cells; larger ones take longer than they
// are worth.
constexpr int64_t kJointCells = int64_t{1} << 18;

struct JointChoice {
  SbpLabels labels;
  SbpCosts costs;
  Choices best;  // with the bound, also where it is not proved
};

SbpProblem ProblemOf(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                     const SbpLabels& labels) {
  return {graph, settled, options, labels, ObservedBy(graph)};
}

// Whether no op has more ways to choose among than kMostWays.
bool FewEnoughWays(const SbpLabels& labels) {
  for (int unit = 0; unit < labels.size(); ++unit) {
    const double ways = labels.Combinations(unit, static_cast<int>(labels.axes().size()));
    if (ways > kMostWays) return false;
  }
  return true;
}

// Where it is not proved, with more cells, the fewer axes there are.
Choices EliminateFurther(const ChoiceNetwork& network, size_t axes) {
  Choices best = Eliminate(network, kJointCells);
  const int64_t most = kJointCells * (axes == 2 ? 16 : axes == 3 ? 4 : 1);
  for (int64_t cells = 4 * kJointCells; !best.proved() && cells <= most; cells *= 4) {
    Choices next = Eliminate(network, cells);
    const Cost bound = std::max(best.bound, next.bound);
    if (next.cost < best.cost) best = std::move(next);
    best.bound = bound;
  }
  return best;
}

// The choice on all axes at once; nothing where there is but one, or more than is worth it.
std::optional<JointChoice> ChooseTogether(const Graph& graph, const SbpOptions& options,
                                          const SbpChoice& whole, const std::vector<int>& axes) {
  if (axes.size() < 2) return std::nullopt;
  absl::StatusOr<SbpLabels> labels = SbpLabels::Make(graph, whole, options, axes);
  // An error is told with the axis where it is found.
  if (!labels.ok() || !FewEnoughWays(*labels)) return std::nullopt;
  SbpCosts costs = SbpNetwork(ProblemOf(graph, whole, options, *labels));
  Choices best = EliminateFurther(costs.network, axes.size());
  return JointChoice{*std::move(labels), std::move(costs), std::move(best)};
}

// One axis after the other.
absl::Status ChooseEach(const std::vector<int>& axes, const SbpOptions& options, Graph* graph,
                        SbpChoice* choice) {
  for (const int axis : axes) {
    ASSIGN_OR_RETURN(const SbpLabels labels, SbpLabels::Make(*graph, *choice, options, {axis}));
    const SbpProblem problem = ProblemOf(*graph, *choice, options, labels);
    const SbpCosts costs = SbpNetwork(problem);
    const Choices best = Solve(costs.network);
    Store(problem, best.label, graph, choice);
    AddNotes(*graph, axis, choice);
    choice->notes.push_back("axis " + graph->mesh.axes[axis].name + ": " +
                            ProofText(costs, best, options) +
                            (axes.size() > 1 ? ", given the axes before it" : ""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SbpChoice> InferSbp(Graph* graph, const SbpOptions& given) {
  SbpOptions options = given;
  options.cluster = ClusterForLayouts(given.cluster);
  RETURN_IF_ERROR(CheckConstraints(*graph));
  SbpChoice choice = LayWhole(graph);
  const SbpChoice whole = choice;
  const std::vector<int> axes = AxesToChoose(graph->mesh);
  std::optional<JointChoice> joint = ChooseTogether(*graph, options, whole, axes);
  if (!joint) {
    RETURN_IF_ERROR(ChooseEach(axes, options, graph, &choice));
    if (axes.size() < 2) return choice;
    choice.notes.push_back("all axes together: not looked at, an op has too many ways to choose");
    return choice;
  }
  const SbpProblem problem = ProblemOf(*graph, whole, options, joint->labels);
  if (!joint->best.proved()) {
    Graph one_by_one = *graph;
    SbpChoice chosen = whole;
    RETURN_IF_ERROR(ChooseEach(axes, options, &one_by_one, &chosen));
    Descend(joint->costs.network,
            {joint->best.label,
             CompleteLabels(joint->costs.network, LabelsOf(problem, one_by_one, chosen))},
            &joint->best);
  }
  Store(problem, joint->best.label, graph, &choice);
  for (const int axis : axes) AddNotes(*graph, axis, &choice);
  choice.notes.push_back("all axes together: " + ProofText(joint->costs, joint->best, options));
  return choice;
}

}  // namespace oneflow
